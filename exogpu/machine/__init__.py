"""The abstract machine: conversion, the literal rules, the fast interpreter, the values."""
