"""Data types and expressions whose values stay exact, `exp` aside: small whole numbers."""

from __future__ import annotations

from campaigns.gpu.making import Making

FLOATS = ("f32", "f32", "f32", "f16", "bf16", "f64")
INTEGERS = ("i32", "i32", "i64", "i8", "ui8", "ui16", "ui64")


def dtype(m: Making) -> str:
    """A type of data, f32 most often."""
    found = m.rng.choice(FLOATS if m.chance(0.75) else INTEGERS)
    m.note(f"type {found}")
    return found


def of_bytes(m: Making, allowed: tuple[str, ...]) -> str:
    """One of these types."""
    found = m.rng.choice(allowed)
    m.note(f"type {found}")
    return found


def expression(m: Making, kind: str, first: str, second: str | None = None) -> str:
    """An expression of one or two elements; its values fit every type, and tell elements apart.

    Scalar statements copy 16-bit floats, and do not compute with them.
    """
    rng = m.rng
    if kind in ("f16", "bf16"):
        return first
    constant = str(rng.randint(1, 3)) + (".0" if kind.startswith(("f", "bf")) else "")
    forms = [
        first,
        first,
        f"{constant} * {first}",
        f"{first} + {constant}",
        f"min({first}, {constant})",
        f"max({first}, {constant})",
        f"relu({first})",
        f"select({first}, {constant}, {constant} * {first}, {first})",
    ]
    if not kind.startswith("u"):
        forms += [f"-{first}", f"{first} - {constant}"]
    if kind in ("f32", "f64"):
        forms += [f"{first} / 2.0", f"0.5 * {first} + 1.0", f"sqrt({first} * {first})"]
        forms.append(f"exp({first})")
    if second is not None:
        forms += [
            f"{first} + {second}",
            f"2 * {first} + {second}" if "." not in constant else f"2.0 * {first} + {second}",
            f"min({first}, {second})",
            f"max({first}, {second})",
            f"select({first}, {second}, {first}, {second})",
            f"{first} * {second}",
        ]
        if not kind.startswith("u"):
            forms.append(f"{first} - {second}")
    found = rng.choice(forms)
    if found is not first:
        m.note("arithmetic")
    for function in ("exp(", "min(", "max(", "relu(", "select(", "sqrt(", " / "):
        if function in found:
            m.note("functions", *(["exp"] if function == "exp(" else []))
    return found
