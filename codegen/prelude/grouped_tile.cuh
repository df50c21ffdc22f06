// Row and column of tile `number` of rows x columns: column by column in bands of `group` rows, so
// that tiles that run together share rows and columns in the L2 cache.
__device__ __forceinline__ int2 grouped_tile(int number, int rows, int columns, int group)
{
    group = min(group, rows);  // so that no product exceeds rows * columns
    const int first = number / (group * columns) * group, height = min(group, rows - first);
    const int inside = number - first * columns;
    return make_int2(first + inside % height, inside / height);
}
