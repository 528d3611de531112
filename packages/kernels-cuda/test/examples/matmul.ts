// x · Wᵀ with a quantised matrix, packed once.
import { matmul, openCompute, packMatrix, quantize } from "@palimpsest/kernels-cuda";

const compute = openCompute(); // the fastest level of this machine, all its cores
const [rows, columns] = [4, 64];
const weights = Float32Array.from({ length: rows * columns }, (_, i) => 1 + Math.floor(i / columns)); // rows of 1, 2, 3, 4
const matrix = await packMatrix(compute, { type: "Q8_0", rows, columns, bytes: quantize("Q8_0", weights) });

const x = new Float32Array(2 * columns).fill(1, 0, columns).fill(0.5, columns); // two rows
const out = await matmul(x, matrix); // [row][output]
console.log(Array.from(out, Math.round).join(" "));
await compute.dispose();
