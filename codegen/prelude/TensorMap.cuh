// What cuTensorMapEncodeTiled fills in: a tensor's address, shape, strides, box and swizzle.
struct alignas(64) TensorMap {
    unsigned char opaque[128];
};
