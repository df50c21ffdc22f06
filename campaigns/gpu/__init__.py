"""Random programs of the whole language in source form, for `campaigns.gpu_fuzz`.

`making` is what a program is made with; `units`, `values`, `staging`, `copies`, `products`, `rings`
are pieces of kernels; `programs` puts pieces together, and `changes` adds and takes away
synchronisation.  `emitting`, `sanitizing`, `failing`, `shrinking`, `page` are the stages of the
campaign, beside the run itself, which is `exogpu.gpu_trial.pool`.
"""
