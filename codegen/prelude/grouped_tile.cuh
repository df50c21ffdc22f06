// Row and column of tile `number` of rows x columns: column by column in bands of `group` rows, so
// that tiles that run together share rows and columns in the L2 cache.
__device__ __forceinline__ int2 grouped_tile(int number, int rows, int columns, int group)
{
    const int first = number / columns / group * group, height = min(group, rows - first);
    const int inside = number - first * columns;
    return make_int2(first + inside % height, inside / height);
}
