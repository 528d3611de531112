//! The bytes of single cells, for whoever keeps them elsewhere: the numbers of a cell in all layers, one after another, whatever page
//! size or place it has. What they mean stays between this pool and one of the same model and dtype.

use crate::cells::{CellShape, Cells, Plane};
use crate::error::{Code, Error, Result};

impl CellShape {
    /// Bytes of one cell in all layers.
    pub fn cell_bytes(&self) -> usize {
        self.layers * self.layer_cell_bytes()
    }

    fn layer_cell_bytes(&self) -> usize {
        self.planes().iter().map(Plane::cell_bytes).sum()
    }

    /// Errors: `argument_invalid` for a slot outside the pool.
    pub fn check_slots(&self, slots: &[i32]) -> Result<()> {
        let count = self.pages * self.page_size;
        let Some(at) = slots.iter().position(|slot| !(0..count as i64).contains(&i64::from(*slot))) else { return Ok(()) };
        let message = format!("slots are 0 … {}, {} came", count as i64 - 1, slots[at]);
        Err(Error::at(Code::ArgumentInvalid, format!("slots[{at}]"), message))
    }

    fn check(&self, slots: &[i32], param: &str, bytes: usize) -> Result<()> {
        self.check_slots(slots)?;
        let wanted = slots.len() * self.cell_bytes();
        if bytes == wanted {
            return Ok(());
        }
        Err(Error::at(Code::ArgumentInvalid, param, format!("{} cells have {wanted} bytes, {bytes} came", slots.len())))
    }
}

impl Cells {
    /// Copies the cells of `slots`, one after another. Errors: `argument_invalid`; then nothing is copied.
    pub fn read(&self, slots: &[i32], into: &mut [u8]) -> Result<()> {
        self.shape().check(slots, "into", into.len())?;
        let each = self.shape().cell_bytes();
        self.visit(slots, |cell, at, page, plane, offset| {
            let from = cell * each + at;
            let into = &mut into[from..from + plane.cell_bytes()];
            match plane.slot_bytes {
                0 => {}
                1 => gather::<1>(page, plane, offset, into),
                2 => gather::<2>(page, plane, offset, into),
                4 => gather::<4>(page, plane, offset, into),
                bytes => {
                    for (from, part) in plane.parts(offset).zip(into.chunks_exact_mut(bytes)) {
                        part.copy_from_slice(&page[from..from + bytes]);
                    }
                }
            }
        });
        Ok(())
    }

    /// The inverse of [`Cells::read`]. Errors: `argument_invalid`; then nothing is written.
    pub fn write(&mut self, slots: &[i32], from: &[u8]) -> Result<()> {
        self.shape().check(slots, "from", from.len())?;
        let each = self.shape().cell_bytes();
        self.visit_mut(slots, |cell, at, page, plane, offset| {
            let first = cell * each + at;
            let parts = from[first..first + plane.cell_bytes()].chunks_exact(plane.slot_bytes.max(1));
            for (to, part) in plane.parts(offset).zip(parts) {
                page[to..to + plane.slot_bytes].copy_from_slice(part);
            }
        });
        Ok(())
    }

    /// Overwrites the cells of `slots` with zeros, and nothing else. Errors: `argument_invalid`; then nothing is written.
    pub fn clear(&mut self, slots: &[i32]) -> Result<()> {
        self.shape().check_slots(slots)?;
        self.visit_mut(slots, |_, _, page, plane, offset| {
            for at in plane.parts(offset) {
                page[at..at + plane.slot_bytes].fill(0);
            }
        });
        Ok(())
    }

    /// Calls `act` with index of the cell, offset of the plane among the cell's bytes, page, plane, and place of the cell in its page.
    /// Layer by layer: cells of one page are read while it is in the cache of a core.
    fn visit(&self, slots: &[i32], mut act: impl FnMut(usize, usize, &[u8], &Plane, usize)) {
        let shape = *self.shape();
        for (layer, cell, slot) in places(shape.layers, slots) {
            let page = self.page(layer, slot / shape.page_size);
            let mut at = layer * shape.layer_cell_bytes();
            for plane in &shape.planes() {
                act(cell, at, page, plane, slot % shape.page_size);
                at += plane.cell_bytes();
            }
        }
    }

    fn visit_mut(&mut self, slots: &[i32], mut act: impl FnMut(usize, usize, &mut [u8], &Plane, usize)) {
        let shape = *self.shape();
        for (layer, cell, slot) in places(shape.layers, slots) {
            let page = self.page_mut(layer, slot / shape.page_size);
            let mut at = layer * shape.layer_cell_bytes();
            for plane in &shape.planes() {
                act(cell, at, page, plane, slot % shape.page_size);
                at += plane.cell_bytes();
            }
        }
    }
}

fn places(layers: usize, slots: &[i32]) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..layers).flat_map(move |layer| slots.iter().enumerate().map(move |(cell, slot)| (layer, cell, *slot as usize)))
}

/// Rows of a length that the compiler knows.
fn gather<const N: usize>(page: &[u8], plane: &Plane, offset: usize, into: &mut [u8]) {
    for (from, part) in plane.parts(offset).zip(into.chunks_exact_mut(N)) {
        part.copy_from_slice(&page[from..from + N]);
    }
}
