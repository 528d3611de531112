// Cells 2 and 3 of seven are dropped, and what follows moves up: no key is copied or turned, the view says where each run stands.
import { openCells, openCompute, segmentAttention } from "@palimpsest/kernels-cuda";

const compute = openCompute();
const cells = openCells(compute, {
  pages: 2, pageSize: 4, heads: 2, kvHeads: 1, headSize: 64, contextLength: 4096,
  rotary: { dimensions: 64, pairing: "half-split", base: 10_000 },
});
const keys = new Float32Array(7 * 64); // equal keys: each cell counts the same
const values = Float32Array.from(keys, (_, i) => Math.floor(i / 64)); // cell i holds i
// Cells 0 … 5 in slots 0 … 5, and the asking row's own in slot 6: it stands at 4, behind four cells.
await cells.store({ slots: Int32Array.of(0, 1, 2, 3, 4, 5, 6), positions: Int32Array.of(0, 1, 2, 3, 4, 5, 4), keys, values });
const out = await segmentAttention(cells, {
  position: Int32Array.of(4), cell: Int32Array.of(6), rowOf: Int32Array.of(0, 1), viewOf: Int32Array.of(0, 2),
  runPage: Int32Array.of(0, 1), runFirst: Int32Array.of(0, 0), runLength: Int32Array.of(2, 2), // slots 0, 1 of page 0; 0, 1 of page 1
  runBirth: Int32Array.of(0, 4), runShift: Int32Array.of(0, -2), pages: Int32Array.of(0, 1),
}, new Float32Array(2 * 64).fill(1));
console.log(`${out.length} numbers; the mean of 0, 1, 4, 5 and 6 is ${out[0]?.toFixed(1)}`);
await compute.dispose();
