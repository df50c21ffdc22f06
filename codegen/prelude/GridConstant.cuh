// Values that a launch hands over with the kernel's parameters.
template <typename T, int count>
struct GridConstant {
    T at[count];
};
