//! Single cells as bytes: which bytes of a page are a cell's, and that nothing else is touched.

use palimpsest_kernels::{CellDtype, CellShape, Cells, Code};

fn shapes() -> Vec<CellShape> {
    let mut shapes = Vec::new();
    for dtype in CellDtype::ALL {
        for (layers, kv_heads, key_size, value_size, pages, page_size) in
            [(1, 1, 2, 2, 1, 1), (3, 2, 6, 10, 4, 5), (2, 3, 64, 64, 3, 16), (2, 1, 32, 64, 5, 1)]
        {
            shapes.push(CellShape { layers, kv_heads, key_size, value_size, pages, page_size, dtype: *dtype });
        }
    }
    shapes
}

/// A pool whose bytes all differ from zero and mostly from each other.
fn filled(shape: CellShape) -> Cells {
    let mut cells = Cells::new(shape).unwrap();
    for layer in 0..shape.layers {
        for page in 0..shape.pages {
            for (at, byte) in cells.page_mut(layer, page).iter_mut().enumerate() {
                *byte = (1 + (at * 31 + page * 7 + layer * 13) % 255) as u8;
            }
        }
    }
    cells
}

fn bytes_of(cells: &Cells) -> Vec<u8> {
    let shape = *cells.shape();
    let places = (0..shape.layers).flat_map(|layer| (0..shape.pages).map(move |page| (layer, page)));
    places.flat_map(|(layer, page)| cells.page(layer, page).to_vec()).collect()
}

#[test]
fn the_cells_of_a_page_are_all_of_its_bytes_and_share_none() {
    for shape in shapes() {
        // Pages of codes are padded to four slots.
        let padded = shape.dtype == CellDtype::Q8_0 && !shape.page_size.is_multiple_of(4);
        assert!(shape.cell_bytes() * shape.page_size <= shape.page_bytes(), "{shape:?}");
        assert!(padded || shape.cell_bytes() * shape.page_size == shape.page_bytes(), "{shape:?}");
        let count = shape.pages * shape.page_size;
        let mut cleared = 0;
        let mut cells = filled(shape);
        for slot in 0..count {
            cells.clear(&[slot as i32]).unwrap();
            let zeros = bytes_of(&cells).iter().filter(|byte| **byte == 0).count();
            assert_eq!(zeros - cleared, shape.cell_bytes(), "slot {slot} of {shape:?}");
            cleared = zeros;
        }
        assert_eq!(cleared, shape.cell_bytes() * shape.page_size * shape.pages);
    }
}

#[test]
fn what_is_read_can_be_written_elsewhere_also_with_another_page_size() {
    for shape in shapes() {
        let cells = filled(shape);
        let slots: Vec<i32> = (0..(shape.pages * shape.page_size) as i32).rev().collect();
        let mut bytes = vec![0; slots.len() * shape.cell_bytes()];
        cells.read(&slots, &mut bytes).unwrap();
        for page_size in [1, 3, 16] {
            let other = CellShape { pages: slots.len().div_ceil(page_size), page_size, ..shape };
            let mut copy = Cells::new(other).unwrap();
            copy.write(&slots, &bytes).unwrap();
            let mut again = vec![0; bytes.len()];
            copy.read(&slots, &mut again).unwrap();
            assert!(again == bytes, "{shape:?} as pages of {page_size}");
        }
        let mut same = Cells::new(shape).unwrap();
        same.write(&slots, &bytes).unwrap();
        let padded = shape.cell_bytes() * shape.page_size < shape.page_bytes();
        assert!(padded || bytes_of(&same) == bytes_of(&cells), "{shape:?}");
    }
}

#[test]
fn a_cell_is_what_the_forward_step_stores() {
    for dtype in CellDtype::ALL {
        let shape = CellShape { layers: 2, kv_heads: 2, key_size: 4, value_size: 6, pages: 2, page_size: 3, dtype: *dtype };
        let mut cells = Cells::new(shape).unwrap();
        for (head, number) in [(0, 1.0), (1, 2.0)] {
            // SAFETY: nobody else has the pool.
            unsafe { cells.layer(1).store(4, head, &[number; 4], &[number; 6]) };
        }
        let mut bytes = vec![0; shape.cell_bytes()];
        cells.read(&[4], &mut bytes).unwrap();
        assert!(bytes.iter().any(|byte| *byte != 0));
        cells.clear(&[4]).unwrap();
        assert!(bytes_of(&cells).iter().all(|byte| *byte == 0), "slot 4 had all that was stored");
    }
}

#[test]
fn slots_and_lengths_that_do_not_fit_are_refused_and_nothing_is_touched() {
    let shape = shapes()[1];
    let mut cells = filled(shape);
    let before = bytes_of(&cells);
    let each = shape.cell_bytes();
    let mut into = vec![7; 2 * each];
    for wrong in [[0, -1], [0, 20], [0, i32::MAX]] {
        for error in [
            cells.read(&wrong, &mut into).unwrap_err(),
            cells.write(&wrong, &vec![0; 2 * each]).unwrap_err(),
            cells.clear(&wrong).unwrap_err(),
        ] {
            assert_eq!((error.code, error.param.as_deref()), (Code::ArgumentInvalid, Some("slots[1]")));
        }
    }
    assert_eq!(cells.read(&[1], &mut into).unwrap_err().param.as_deref(), Some("into"));
    assert_eq!(cells.write(&[1], &into).unwrap_err().param.as_deref(), Some("from"));
    assert!(into.iter().all(|byte| *byte == 7) && bytes_of(&cells) == before);
    cells.clear(&[]).unwrap();
}
