//! The last step of a product.

use crate::level::{Output, PANEL_ROWS};

/// Writes the sums of one panel for one row of activations: bias and what stands there are added as `out` says.
///
/// # Safety
/// The outputs of this panel in this row are the caller's.
#[inline(always)]
pub unsafe fn finish(sums: &[f32; PANEL_ROWS], matrix_rows: usize, panel: usize, row: usize, out: &Output<'_>) {
    let first = panel * PANEL_ROWS;
    let count = PANEL_ROWS.min(matrix_rows - first);
    // SAFETY: `count` outputs of this panel in this row (caller).
    let target = unsafe { std::slice::from_raw_parts_mut(out.start.add(row * out.stride + first), count) };
    let bias = out.bias.map(|bias| &bias[first..first + count]);
    // A constant length becomes vectors.
    match <&mut [f32; PANEL_ROWS]>::try_from(&mut *target) {
        Ok(target) => add_to(sums, bias, out.add, target),
        Err(_) => add_to(&sums[..count], bias, out.add, target),
    }
}

#[inline(always)]
fn add_to(sums: &[f32], bias: Option<&[f32]>, add: bool, target: &mut [f32]) {
    for (i, (target, sum)) in target.iter_mut().zip(sums).enumerate() {
        let sum = match bias {
            Some(bias) => sum + bias[i],
            None => *sum,
        };
        *target = if add { sum + *target } else { sum };
    }
}
