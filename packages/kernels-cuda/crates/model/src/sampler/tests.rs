use palimpsest_kernels::softmax::log_sum;

use super::*;

fn draw(logits: &[f32], sampled: usize, sampler: &Sampler, constraints: &Constraints<'_>, workspace: &mut Workspace) -> u32 {
    super::draw(logits, &log_sum(logits), sampled, sampler, constraints, workspace)
}

fn seeded(sampler: Sampler, seed: u64, draw: u64) -> Sampler {
    Sampler { seed, draw, ..sampler }
}

const PLAIN: Sampler = Sampler { temperature: 1.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 1, draw: 0 };

fn one(logits: &[f32], sampler: Sampler) -> usize {
    draw(logits, logits.len(), &sampler, &Constraints::default(), &mut Workspace::default()) as usize
}

/// Shares of the ids over many draws.
fn shares(logits: &[f32], sampler: Sampler, constraints: &Constraints<'_>) -> Vec<f64> {
    let draws = 40_000;
    let mut counts = vec![0f64; logits.len()];
    let mut workspace = Workspace::default();
    for number in 0..draws {
        counts[draw(logits, logits.len(), &seeded(sampler, 42, number), constraints, &mut workspace) as usize] += 1.0 / draws as f64;
    }
    counts
}

fn assert_near(shares: &[f64], expected: &[f64]) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() < 0.012, "{shares:?} for {expected:?}");
        assert!(*expected > 0.0 || *share == 0.0, "{shares:?} for {expected:?}");
    }
}

/// Logits whose softmax is 0.4, 0.3, 0.2, 0.1, in another order.
fn four() -> (Vec<f32>, [f64; 4]) {
    let probabilities = [0.2, 0.4, 0.1, 0.3];
    (probabilities.iter().map(|p: &f64| p.ln() as f32 + 3.0).collect(), probabilities)
}

#[test]
fn philox_gives_the_known_answers_of_its_authors() {
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    assert_eq!(
        philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
        [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
    );
}

#[test]
fn temperature_zero_takes_the_highest_and_the_lowest_id_among_equals() {
    assert_eq!(one(&[1.0, 3.0, 2.0, 3.0], Sampler::GREEDY), 1);
    assert_eq!(one(&[-0.0, 0.0, -1.0], Sampler::GREEDY), 0);
    assert_eq!(one(&[f32::NEG_INFINITY, -5.0, f32::NAN], Sampler::GREEDY), 1);
}

#[test]
fn shares_of_many_draws_are_the_softmax() {
    let (logits, probabilities) = four();
    assert_near(&shares(&logits, PLAIN, &Constraints::default()), &probabilities);
}

#[test]
fn temperature_sharpens_and_flattens() {
    let (logits, probabilities) = four();
    for temperature in [0.5, 2.0] {
        let powers = probabilities.map(|p| p.powf(1.0 / temperature));
        let total: f64 = powers.iter().sum();
        let sampler = Sampler { temperature: temperature as f32, ..PLAIN };
        assert_near(&shares(&logits, sampler, &Constraints::default()), &powers.map(|p| p / total));
    }
}

#[test]
fn top_k_top_p_and_min_p_cut_what_they_say() {
    let (logits, _) = four();
    let cut = |sampler| shares(&logits, sampler, &Constraints::default());
    assert_near(&cut(Sampler { top_k: 2, ..PLAIN }), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
    assert_near(&cut(Sampler { top_k: 9, ..PLAIN }), &[0.2, 0.4, 0.1, 0.3]);
    assert_near(&cut(Sampler { top_p: 0.65, ..PLAIN }), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
    assert_near(&cut(Sampler { top_p: 0.75, ..PLAIN }), &[2.0 / 9.0, 4.0 / 9.0, 0.0, 3.0 / 9.0]);
    assert_near(&cut(Sampler { top_p: 0.0, ..PLAIN }), &[0.0, 1.0, 0.0, 0.0]);
    assert_near(&cut(Sampler { min_p: 0.45, ..PLAIN }), &[2.0 / 9.0, 4.0 / 9.0, 0.0, 3.0 / 9.0]);
    assert_near(&cut(Sampler { top_k: 3, top_p: 0.7, ..PLAIN }), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
}

#[test]
fn biases_add_up_and_masks_leave_out() {
    let (logits, _) = four();
    let bias = Constraints { bias_id: &[1, 1, 3], bias_value: &[-1.0, f32::NEG_INFINITY, 3f32.ln()], mask: None };
    assert_near(&shares(&logits, PLAIN, &bias), &[0.2 / 1.2, 0.0, 0.1 / 1.2, 0.9 / 1.2]);
    let mask = Constraints { mask: Some(&[0b0101]), ..Constraints::default() };
    assert_near(&shares(&logits, PLAIN, &mask), &[2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0]);
    let greedy = draw(&logits, 4, &Sampler::GREEDY, &mask, &mut Workspace::default());
    assert_eq!(greedy, 0);
}

#[test]
fn a_draw_depends_on_seed_and_number_alone() {
    let logits: Vec<f32> = (0..2000).map(|i| ((i * 37) % 101) as f32 / 50.0).collect();
    let mut workspace = Workspace::default();
    let fresh: Vec<usize> = (0..64).map(|number| one(&logits, seeded(PLAIN, 9, number))).collect();
    for number in (0..64).rev() {
        let again = draw(&logits, 2000, &seeded(PLAIN, 9, number), &Constraints::default(), &mut workspace) as usize;
        assert_eq!(again, fresh[number as usize]);
    }
    let other: Vec<usize> = (0..64).map(|number| one(&logits, seeded(PLAIN, 9 + (1 << 40), number))).collect();
    assert_ne!(fresh, other, "high bits of the seed count");
    assert!(fresh.iter().collect::<std::collections::HashSet<_>>().len() > 50);
}

#[test]
fn ids_past_the_tokenizer_s_vocabulary_are_never_drawn_nor_listed() {
    let mut logits = vec![0.0; 10];
    logits[7..].fill(50.0);
    for number in 0..200 {
        let id = draw(&logits, 7, &seeded(PLAIN, 3, number), &Constraints::default(), &mut Workspace::default());
        assert!(id < 7);
    }
    assert_eq!(draw(&logits, 7, &Sampler::GREEDY, &Constraints::default(), &mut Workspace::default()), 0);
    assert!(top(&logits, 7, 7, &mut Workspace::default()).iter().all(|(_, id)| *id < 7));
}

#[test]
fn nan_and_infinite_logits_are_survived() {
    let cases: &[&[f32]] = &[
        &[f32::NAN; 5],
        &[f32::NEG_INFINITY; 5],
        &[f32::NAN, 1.0, f32::NAN, 1.0, f32::NEG_INFINITY],
        &[f32::INFINITY, 1.0, f32::INFINITY, f32::NAN, 0.0],
        &[f32::MAX, f32::MIN, 0.0, 1e-45, -0.0],
    ];
    for logits in cases {
        for temperature in [0.0, 1e-30, 1.0, 1e30] {
            for (top_k, top_p, min_p) in [(0, 1.0, 0.0), (2, 0.5, 0.1), (1, 0.0, 1.0)] {
                let sampler = Sampler { temperature, top_k, top_p, min_p, seed: 5, draw: 6 };
                let id = one(logits, sampler);
                let any = logits.iter().any(|logit| *logit > f32::NEG_INFINITY);
                assert!(!any || logits[id] > f32::NEG_INFINITY, "{logits:?} gave {id} with {sampler:?}");
            }
        }
    }
    assert_eq!(one(&[f32::INFINITY, 1.0, 2.0], PLAIN), 0);
}

#[test]
fn the_best_are_listed_in_order_lower_ids_first_among_equals() {
    let logits = [1.0, 5.0, 3.0, 5.0, f32::NAN, -1.0];
    let mut workspace = Workspace::default();
    let ids = |count, workspace: &mut Workspace| top(&logits, 6, count, workspace).iter().map(|(_, id)| *id).collect::<Vec<_>>();
    assert_eq!(ids(3, &mut workspace), [1, 3, 2]);
    assert_eq!(ids(0, &mut workspace), [0u32; 0]);
    assert_eq!(ids(6, &mut workspace), [1, 3, 2, 0, 5, 4]);
}
