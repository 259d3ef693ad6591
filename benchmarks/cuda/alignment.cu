// Needleman and Wunsch's score of one pair; see examples/programs/alignment.py.
constexpr int MATCH = 2, MISMATCH = -1, GAP = -2, LONGEST = 512;

extern "C" __global__ void align_shared(const signed char* a, const signed char* b, int* result, int length_a, int length_b) {
    __shared__ int diagonals[3][LONGEST + 1];
    int thread = threadIdx.x, threads = blockDim.x, rows = length_a + 1, columns = length_b + 1;
    for (int diagonal = 0; diagonal < rows + columns - 1; diagonal++) {
        int now = diagonal % 3, before = (diagonal + 2) % 3, earlier = (diagonal + 1) % 3;
        for (int i = max(0, diagonal - columns + 1) + thread; i < min(diagonal + 1, rows); i += threads) {
            int j = diagonal - i;
            if (i == 0 || j == 0) {
                diagonals[now][i] = (i + j) * GAP;
            } else {
                int score = diagonals[earlier][i - 1] + (a[i - 1] == b[j - 1] ? MATCH : MISMATCH);
                diagonals[now][i] = max(max(score, diagonals[before][i - 1] + GAP), diagonals[before][i] + GAP);
            }
        }
        __syncthreads();
    }
    if (thread == 0) result[0] = diagonals[(rows + columns - 2) % 3][rows - 1];
}
