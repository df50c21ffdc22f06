"""The data types by the names that kernels use."""

from typing import Final

from exogpu.ir.types import DataType

f8e4m3: Final = DataType.F8E4M3
f8e5m2: Final = DataType.F8E5M2
f16: Final = DataType.F16
bf16: Final = DataType.BF16
f32: Final = DataType.F32
f64: Final = DataType.F64
i8: Final = DataType.I8
i32: Final = DataType.I32
i64: Final = DataType.I64
ui8: Final = DataType.UI8
ui16: Final = DataType.UI16
ui64: Final = DataType.UI64
