//! A step is checked whole before a byte is written: a case for each rule, and random damage.

mod support;

use palimpsest_kernels::{CellDtype, Code, Level};
use palimpsest_model::config::Architecture;
use palimpsest_model::forward::Engine;
use palimpsest_model::gguf::GgufFile;
use palimpsest_model::step::{Sampler, Step};
use support::{Random, open, tiny};

const CONTEXT: i32 = 512;
const VOCABULARY: usize = 512;
const PAGES: i32 = 12;
const PAGE_SIZE: i32 = 4;

fn engine() -> Engine {
    let file = GgufFile::from_bytes(tiny(Architecture::Llama, 3).bytes().unwrap()).unwrap();
    open(&file, Level::Reference, CellDtype::F32, PAGES as usize, PAGE_SIZE as usize, 1).engine
}

/// Two segments: three new rows over a view of two runs, and one resident row that is asked again and also draws from a mask.
fn valid() -> Step {
    Step {
        token: vec![1, 2, 3, 4],
        position: vec![10, 11, 12, 3],
        cell: vec![40, 41, 42, 7],
        store: vec![1, 1, 1, 0],
        row_of: vec![0, 3, 4],
        view_of: vec![0, 2, 3],
        run_page: vec![0, 2, 0],
        run_first: vec![2, 0, 0],
        run_length: vec![5, 4, 3],
        run_birth: vec![0, 20, 0],
        run_shift: vec![0, -14, 0],
        pages: vec![0, 1, 5],
        out_row: vec![2, 3, 2],
        out_target: vec![-1, 9, -1],
        out_top: vec![0, 20, 3],
        out_sampler: vec![0, 0, 1],
        samplers: vec![Sampler::GREEDY, Sampler { temperature: 0.7, top_k: 5, top_p: 0.9, min_p: 0.1, seed: 7, draw: 2 }],
        bias_of: vec![0, 0, 0, 2],
        bias_id: vec![3, 511],
        bias_value: vec![-1.5, f32::NEG_INFINITY],
        mask_of: vec![-1, -1, 0],
        mask: vec![u32::MAX; VOCABULARY / 32],
        logits: Some(3 * VOCABULARY),
    }
}

fn param_of(engine: &mut Engine, step: &Step) -> String {
    match engine.step(step, &|_| Ok(())) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => {
            assert_eq!(error.code, Code::StepInvalid, "{error}");
            assert!(error.message.len() > 10, "{error}");
            error.param.expect("a parameter")
        }
    }
}

#[test]
fn a_step_that_keeps_every_rule_is_taken() {
    assert_eq!(param_of(&mut engine(), &valid()), "accepted");
}

#[test]
fn a_step_without_rows_is_taken() {
    let step = Step { row_of: vec![0], view_of: vec![0], ..Step::default() };
    assert_eq!(param_of(&mut engine(), &step), "accepted");
}

/// What breaks a valid step, and the parameter that the error names.
type Case = (fn(&mut Step), &'static str);

const CASES: &[Case] = &[
    // lengths
    (|s| s.position.truncate(s.position.len() - 1), "position"),
    (|s| s.cell.push(43), "cell"),
    (|s| s.store.truncate(s.store.len() - 1), "store"),
    (|s| s.row_of.clear(), "rowOf"),
    (|s| s.view_of.push(3), "viewOf"),
    (|s| s.view_of.truncate(s.view_of.len() - 1), "viewOf"),
    (|s| s.run_first.truncate(s.run_first.len() - 1), "runFirst"),
    (|s| s.run_length.push(1), "runLength"),
    (|s| s.run_birth.truncate(s.run_birth.len() - 1), "runBirth"),
    (|s| s.run_shift.truncate(s.run_shift.len() - 1), "runShift"),
    (|s| s.out_target.truncate(s.out_target.len() - 1), "outTarget"),
    (|s| s.out_top.truncate(s.out_top.len() - 1), "outTop"),
    (|s| s.out_sampler.push(0), "outSampler"),
    (|s| s.bias_value.truncate(s.bias_value.len() - 1), "biasValue"),
    (|s| s.bias_of.truncate(s.bias_of.len() - 1), "biasOf"),
    (|s| s.bias_of.clear(), "biasId"),
    (|s| s.mask.truncate(s.mask.len() - 1), "mask"),
    (|s| s.mask_of.truncate(s.mask_of.len() - 1), "maskOf"),
    (|s| s.logits = Some(VOCABULARY), "logits"),
    // rows
    (|s| s.token[1] = VOCABULARY as i32, "token[1]"),
    (|s| s.token[2] = -1, "token[2]"),
    (|s| s.token[0] = i32::MIN, "token[0]"),
    (|s| s.position[0] = -1, "position[0]"),
    (|s| s.position[3] = CONTEXT, "position[3]"),
    (|s| s.cell[0] = -1, "cell[0]"),
    (|s| s.cell[2] = PAGES * PAGE_SIZE, "cell[2]"),
    (|s| s.store[1] = 2, "store[1]"),
    (|s| s.cell[2] = 40, "cell[2]"),
    // segments
    (|s| s.row_of[0] = 1, "rowOf[0]"),
    (|s| s.row_of[1] = 5, "rowOf[2]"),
    (|s| s.row_of[2] = 3, "rowOf[2]"),
    (|s| s.row_of[1] = -2, "rowOf[1]"),
    (|s| s.view_of[0] = -1, "viewOf[0]"),
    (|s| s.view_of[1] = 4, "viewOf[2]"),
    (|s| s.view_of[2] = 2, "viewOf[2]"),
    // runs
    (|s| s.pages[2] = PAGES, "pages[2]"),
    (|s| s.pages[0] = -1, "pages[0]"),
    (|s| s.run_page[0] = 3, "runPage[0]"),
    (|s| s.run_page[1] = -1, "runPage[1]"),
    (|s| s.run_first[0] = PAGE_SIZE, "runFirst[0]"),
    (|s| s.run_first[2] = -1, "runFirst[2]"),
    (|s| s.run_length[1] = 0, "runLength[1]"),
    (|s| s.run_length[1] = 5, "runLength[1]"),
    (|s| s.run_length[0] = i32::MAX, "runLength[0]"),
    (|s| s.run_birth[2] = -1, "runBirth[2]"),
    (|s| s.run_birth[1] = CONTEXT - 3, "runBirth[1]"),
    (|s| s.run_birth[1] = i32::MAX, "runBirth[1]"),
    (|s| s.run_shift[1] = -21, "runShift[1]"),
    (|s| s.run_shift[0] = CONTEXT - 4, "runShift[0]"),
    (|s| s.run_shift[0] = i32::MIN, "runShift[0]"),
    (|s| s.run_shift[0] = i32::MAX, "runShift[0]"),
    // outputs
    (|s| s.out_row[0] = 4, "outRow[0]"),
    (|s| s.out_row[2] = -1, "outRow[2]"),
    (|s| s.out_target[0] = -2, "outTarget[0]"),
    (|s| s.out_target[1] = VOCABULARY as i32, "outTarget[1]"),
    (|s| s.out_top[1] = 21, "outTop[1]"),
    (|s| s.out_sampler[2] = 2, "outSampler[2]"),
    (|s| s.out_sampler[0] = -1, "outSampler[0]"),
    (|s| s.samplers.clear(), "outSampler[0]"),
    // samplers
    (|s| s.samplers[1].temperature = -0.1, "samplers[1].temperature"),
    (|s| s.samplers[1].temperature = f32::NAN, "samplers[1].temperature"),
    (|s| s.samplers[1].temperature = f32::INFINITY, "samplers[1].temperature"),
    (|s| s.samplers[1].top_p = 1.1, "samplers[1].topP"),
    (|s| s.samplers[1].top_p = f32::NAN, "samplers[1].topP"),
    (|s| s.samplers[0].min_p = -0.1, "samplers[0].minP"),
    // biases
    (|s| s.bias_of[0] = 1, "biasOf[0]"),
    (|s| s.bias_of[2] = 3, "biasOf[3]"),
    (|s| s.bias_of[3] = 1, "biasOf[3]"),
    (|s| s.bias_id[0] = -1, "biasId[0]"),
    (|s| s.bias_id[1] = VOCABULARY as i32, "biasId[1]"),
    (|s| s.bias_value[0] = f32::NAN, "biasValue[0]"),
    (|s| s.bias_value[1] = f32::INFINITY, "biasValue[1]"),
    // masks
    (|s| s.mask_of[0] = -2, "maskOf[0]"),
    (|s| s.mask_of[2] = 1, "maskOf[2]"),
    (|s| s.mask.fill(0), "maskOf[2]"),
];

#[test]
fn each_rule_has_a_step_that_breaks_it_and_an_error_that_names_the_field() {
    let mut engine = engine();
    for (number, (damage, param)) in CASES.iter().enumerate() {
        let mut step = valid();
        damage(&mut step);
        assert_eq!(param_of(&mut engine, &step), *param, "case {number}");
    }
}

#[test]
fn the_previous_step_s_outputs_are_tokens_until_the_next() {
    let mut engine = engine();
    let outcome = engine.step(&valid(), &|_| Ok(())).unwrap();
    let next = |token: i32| Step {
        token: vec![token],
        position: vec![13],
        cell: vec![43],
        store: vec![1],
        row_of: vec![0, 1],
        view_of: vec![0, 0],
        out_row: vec![0],
        out_target: vec![-1],
        out_top: vec![0],
        out_sampler: vec![0],
        samplers: vec![Sampler::GREEDY],
        logits: Some(VOCABULARY),
        ..Step::default()
    };
    assert_eq!(param_of(&mut engine, &next(-4)), "token[0]");
    let by_reference = engine.step(&next(-3), &|_| Ok(())).unwrap();
    let by_id = engine.step(&next(outcome.draws.ids[2]), &|_| Ok(())).unwrap();
    assert_eq!(by_reference.logits, by_id.logits);
    assert_eq!(param_of(&mut engine, &next(-2)), "token[0]", "only one output came since");
}

#[test]
fn a_model_with_windows_wants_positions_that_rise() {
    let file = GgufFile::from_bytes(tiny(Architecture::Gemma3, 3).bytes().unwrap()).unwrap();
    let mut engine = open(&file, Level::Reference, CellDtype::F32, PAGES as usize, PAGE_SIZE as usize, 1).engine;
    let mut step = valid();
    assert_eq!(param_of(&mut engine, &step), "accepted");
    step.run_shift[1] = -16;
    assert_eq!(param_of(&mut engine, &step), "runShift[1]");
    step = valid();
    step.position[1] = 10;
    assert_eq!(param_of(&mut engine, &step), "position[1]");
    step = valid();
    step.position[3] = 2;
    assert_eq!(param_of(&mut engine, &step), "position[3]");
}

/// Everything that a step could have written.
fn cells_of(engine: &Engine) -> Vec<u32> {
    let cells = &engine.machine().cells;
    let shape = *cells.shape();
    (0..shape.layers)
        .flat_map(|layer| {
            let elements = shape.page_elements() * shape.pages;
            // SAFETY: the layer holds that many f32, and nothing steps meanwhile.
            unsafe { std::slice::from_raw_parts(cells.layer(layer).keys::<f32>(0, 0), elements) }.iter().map(|number| number.to_bits())
        })
        .collect()
}

#[test]
fn damaged_steps_are_refused_with_nothing_written_or_are_legal_and_never_panic() {
    let mut engine = engine();
    let (mut refused, mut taken) = (0, 0);
    let cases = if std::env::var("PALIMPSEST_LONG").is_ok_and(|value| value == "1") { 300_000 } else { 15_000 };
    let mut before = cells_of(&engine);
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let mut step = valid();
        for _ in 0..random.between(1, 3) {
            damage(&mut step, &mut random);
        }
        match engine.step(&step, &|_| Ok(())) {
            Ok(outcome) => {
                taken += 1;
                assert_eq!(outcome.draws.ids.len(), step.outputs(), "seed {seed}");
                before = cells_of(&engine);
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.code, Code::StepInvalid, "seed {seed}: {error}");
                assert!(error.param.is_some(), "seed {seed}: {error}");
                assert!(before == cells_of(&engine), "seed {seed}: a refused step wrote cells: {error}");
            }
        }
    }
    println!("{refused} refused, {taken} legal");
    assert!(refused > cases / 4 && taken > cases / 20, "{refused} refused, {taken} legal");
}

fn damage(step: &mut Step, random: &mut Random) {
    let mut fields: Vec<&mut Vec<i32>> = vec![
        &mut step.token,
        &mut step.position,
        &mut step.cell,
        &mut step.row_of,
        &mut step.view_of,
        &mut step.run_page,
        &mut step.run_first,
        &mut step.run_length,
        &mut step.run_birth,
        &mut step.run_shift,
        &mut step.pages,
        &mut step.out_row,
        &mut step.out_target,
        &mut step.out_sampler,
        &mut step.bias_of,
        &mut step.bias_id,
        &mut step.mask_of,
    ];
    let values = [0, 1, -1, 2, 3, 4, 7, 11, 12, 47, 48, 511, 512, i32::MAX, i32::MIN];
    let field = random.below(fields.len() + 4);
    if let Some(field) = fields.get_mut(field) {
        match random.below(8) {
            0 if !field.is_empty() => {
                field.remove(random.below(field.len()));
            }
            1 => field.insert(random.below(field.len() + 1), values[random.below(values.len())]),
            2 if !field.is_empty() => {
                let at = random.below(field.len());
                field[at] = field[at].wrapping_add(random.between(0, 2) as i32 - 1);
            }
            _ if !field.is_empty() => {
                let at = random.below(field.len());
                field[at] = values[random.below(values.len())];
            }
            _ => field.clear(),
        }
        return;
    }
    match random.below(6) {
        0 => step.store[random.below(4)] = random.below(3) as u8,
        1 => step.out_top[0] = random.below(30) as u8,
        2 => step.bias_value[0] = [f32::NAN, 0.0, f32::INFINITY, f32::NEG_INFINITY, 1e30][random.below(5)],
        3 => step.mask[random.below(16)] = random.next() as u32,
        4 => step.logits = [None, Some(0), Some(3 * VOCABULARY)][random.below(3)],
        _ => {
            let sampler = &mut step.samplers[1];
            let number = [0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, 1e-30, 1e30][random.below(7)];
            match random.below(4) {
                0 => sampler.temperature = number,
                1 => sampler.top_p = number,
                2 => sampler.min_p = number,
                _ => sampler.top_k = random.below(600) as u32,
            }
        }
    }
}

#[test]
fn a_step_that_is_stopped_between_layers_leaves_an_engine_that_goes_on() {
    let mut engine = engine();
    let first = engine.step(&valid(), &|_| Ok(())).unwrap();
    let stop = |layer: usize| {
        if layer == 1 { Err(palimpsest_kernels::Error::new(Code::StepCancelled, "stopped")) } else { Ok(()) }
    };
    assert_eq!(engine.step(&valid(), &stop).unwrap_err().code, Code::StepCancelled);
    assert_eq!(engine.step(&valid(), &|_| Ok(())).unwrap().draws, first.draws);
}

#[test]
fn pages_are_zeroed_whole_and_only_those() {
    let mut engine = engine();
    engine.step(&valid(), &|_| Ok(())).unwrap();
    assert!(cells_of(&engine).iter().any(|bits| *bits != 0));
    assert_eq!(engine.clear_pages(&[0, PAGES]).unwrap_err().param.as_deref(), Some("pages[1]"));
    assert!(cells_of(&engine).iter().any(|bits| *bits != 0), "a refused call clears nothing");
    engine.clear_pages(&[10]).unwrap();
    assert!(cells_of(&engine).iter().all(|bits| *bits == 0), "slots 40 … 42 lie in page 10");
}
