// Row and column of tile `number` of rows x columns along a Hilbert curve for rectangles: from the
// corner `at` the curve covers the sides `along` and `across` (one of each is 0, the other signed).
__device__ __forceinline__ int2 hilbert_tile(int number, int rows, int columns)
{
    int2 at = make_int2(0, 0), along = make_int2(0, columns), across = make_int2(rows, 0);
    if (rows > columns) {
        along = make_int2(rows, 0);
        across = make_int2(0, columns);
    }
    for (;;) {
        const int length = abs(along.x + along.y), width = abs(across.x + across.y);
        const int2 a = make_int2(along.x / length, along.y / length);    // one step along
        const int2 b = make_int2(across.x / width, across.y / width);  // and one across
        if (width == 1)
            return make_int2(at.x + number * a.x, at.y + number * a.y);
        if (length == 1)
            return make_int2(at.x + number * b.x, at.y + number * b.y);
        int half = length / 2, depth = width / 2;
        if (2 * length > 3 * width) {  // long: one half after the other
            half += half % 2 && length > 2;
            if (number < half * width) {
                along = make_int2(half * a.x, half * a.y);
            } else {
                number -= half * width;
                at = make_int2(at.x + half * a.x, at.y + half * a.y);
                along = make_int2((length - half) * a.x, (length - half) * a.y);
            }
            continue;
        }
        depth += depth % 2 && width > 2;
        const int out = half * depth, over = length * (width - depth);
        if (number < out) {  // up the first quarter
            along = make_int2(depth * b.x, depth * b.y);
            across = make_int2(half * a.x, half * a.y);
        } else if (number < out + over) {  // along the far half
            number -= out;
            at = make_int2(at.x + depth * b.x, at.y + depth * b.y);
            across = make_int2((width - depth) * b.x, (width - depth) * b.y);
        } else {  // and down the last quarter
            number -= out + over;
            at = make_int2(at.x + (length - 1) * a.x + (depth - 1) * b.x,
                           at.y + (length - 1) * a.y + (depth - 1) * b.y);
            along = make_int2(-depth * b.x, -depth * b.y);
            across = make_int2(-(length - half) * a.x, -(length - half) * a.y);
        }
    }
}
