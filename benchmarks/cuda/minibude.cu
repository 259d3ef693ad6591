// Energies of poses; see examples/programs/minibude.py.
constexpr int POSES = 4, ACCEPTOR = 70, DONOR = 69;
constexpr float HARDNESS = 38, ELECTROSTATIC = 45, NEAR = 1, FAR = 5.5f;

struct Atom {
    float x, y, z;
    int kind;
};

struct Force {
    int bond;
    float radius, affinity, charge;
};

extern "C" __global__ void fasten(const Atom* protein, const Atom* ligand, const Force* forces, const float* poses,
                                  float* energies, int atoms, int ligand_atoms, int count) {
    float matrices[POSES][3][4], totals[POSES], at[POSES][3];
    int block = blockDim.x, first = blockIdx.x * block * POSES + threadIdx.x;
#pragma unroll
    for (int p = 0; p < POSES; p++) {
        int i = min(first + p * block, count - 1);
        float sx = sinf(poses[i]), cx = cosf(poses[i]), sy = sinf(poses[count + i]), cy = cosf(poses[count + i]);
        float sz = sinf(poses[2 * count + i]), cz = cosf(poses[2 * count + i]);
        float rows[3][4] = {{cy * cz, sx * sy * cz - cx * sz, cx * sy * cz + sx * sz, poses[3 * count + i]},
                            {cy * sz, sx * sy * sz + cx * cz, cx * sy * sz - sx * cz, poses[4 * count + i]},
                            {-sy, sx * cy, cx * cy, poses[5 * count + i]}};
        for (int axis = 0; axis < 3; axis++)
            for (int k = 0; k < 4; k++) matrices[p][axis][k] = rows[axis][k];
        totals[p] = 0;
    }
    for (int a = 0; a < ligand_atoms; a++) {
        Atom atom = ligand[a];
        Force mine = forces[atom.kind];
        bool attracted = mine.affinity < 0, repelled = mine.affinity > 0;
#pragma unroll
        for (int p = 0; p < POSES; p++)
            for (int axis = 0; axis < 3; axis++) {
                float* row = matrices[p][axis];
                at[p][axis] = row[3] + atom.x * row[0] + atom.y * row[1] + atom.z * row[2];
            }
        for (int b = 0; b < atoms; b++) {
            Atom other = protein[b];
            Force its = forces[other.kind];
            float radius = its.radius + mine.radius, scale = 1 / radius;
            bool both = its.bond == ACCEPTOR && mine.bond == ACCEPTOR, either = its.bond == DONOR || mine.bond == DONOR;
            float reach = both ? 4 : 2, slope = both ? 0.25f : 0.5f;
            float one = its.affinity < 0 && repelled ? -its.affinity : its.affinity;
            float two = its.affinity > 0 && attracted ? -mine.affinity : mine.affinity;
            float edge = its.affinity < 0 ? (attracted ? FAR : NEAR) : (attracted ? NEAR : -__int_as_float(0x7f800000));
            float fall = 1 / edge, charge = mine.charge * its.charge, solvation = one + two;
#pragma unroll
            for (int p = 0; p < POSES; p++) {
                float x = at[p][0] - other.x, y = at[p][1] - other.y, z = at[p][2] - other.z;
                float distance = sqrtf(x * x + y * y + z * z), gap = distance - radius;
                bool inside = gap < 0;
                float energy = (1 - distance * scale) * (inside ? 2 * HARDNESS : 0);
                float force = charge * ((inside ? 1 : 1 - gap * slope) * (gap < reach ? 1 : 0));
                energy += (either ? -fabsf(force) : force) * ELECTROSTATIC;
                float wet = gap < edge && its.affinity != 0 ? solvation : 0;
                totals[p] += energy + wet * (inside ? 1 : 1 - gap * fall);
            }
        }
    }
    for (int p = 0; p < POSES; p++)
        if (first + p * block < count) energies[first + p * block] = totals[p] * 0.5f;
}
