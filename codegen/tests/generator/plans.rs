//! What a plan decides: layers, arena, launches, segments, bytes.

use pantheon_codegen::family::{LayerKind, Stage};
use pantheon_codegen::plan::{ALIGN, BufferPlan, COLUMN_BUCKETS, MAX_COLUMNS, Stored};
use pantheon_codegen::{ModelSpec, Plan, mix, parse, to_toml_entry};

use super::{model, models, plan};

/// Valid shapes from all over the allowed ranges.
fn shapes() -> Vec<ModelSpec> {
    // A fixed linear congruential generator: failures repeat.
    let mut state = 12345u64;
    let mut next = move |choices: &[usize]| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        choices[(state >> 33) as usize % choices.len()]
    };
    let mut random = || {
        let n_head_kv = next(&[1, 2, 3, 8]);
        let gdn_k_heads = next(&[1, 2, 5, 16]);
        let n_expert = next(&[1, 7, 60, 256, 512]);
        ModelSpec {
            name: "random".to_owned(),
            reference_mix: "q8_0".to_owned(),
            n_layer: next(&[2, 7, 40, 61, 200]),
            full_attention_interval: 2,
            n_embd: next(&[32, 96, 160, 2048, 5120]),
            n_vocab: next(&[1, 321, 248_320]),
            n_head: n_head_kv * next(&[1, 3, 8, 64]),
            n_head_kv,
            head_dim: next(&[32, 64, 96, 256]),
            rms_eps: 1e-6,
            rope_dim: 32,
            rope_sections: [8, 8, 0, 0],
            rope_base: 1e7,
            n_expert,
            n_expert_used: next(&[1, 3, 10, 64]).min(n_expert),
            expert_ff: next(&[32, 96, 512, 1024]),
            shared_ff: next(&[32, 64, 512, 2048]),
            gdn_k_heads,
            gdn_v_heads: gdn_k_heads * next(&[1, 2, 4]),
            gdn_head_dim: next(&[32, 64, 128]),
            conv_taps: next(&[2, 4, 8]),
            mixes: Vec::new(),
        }
    };
    models().into_iter().chain((0..300).map(|_| random())).collect()
}

#[test]
fn shapes_made_up_here_are_valid() {
    for spec in shapes() {
        assert_eq!(parse(&to_toml_entry(&spec), "entry"), Ok(vec![spec]));
    }
}

/// Whether two buffers are alive in a common stage that a layer of one kind runs.
fn collide(a: &BufferPlan, b: &BufferPlan) -> bool {
    let alive = |b: &BufferPlan, stage: Stage, kind: LayerKind| {
        let runs = stage.layers().has(kind) || matches!(stage, Stage::Embed | Stage::Head);
        runs && b.first <= stage && stage <= b.last
    };
    // What is born in the other kind's stages only is not there at all.
    let there = |b: &BufferPlan, kind| {
        Stage::ALL.iter().any(|s| s.layers().has(kind) && alive(b, *s, kind)) || b.name == "x"
    };
    [LayerKind::Gdn, LayerKind::Attention].into_iter().any(|kind| {
        there(a, kind)
            && there(b, kind)
            && Stage::ALL.iter().any(|s| alive(a, *s, kind) && alive(b, *s, kind))
    })
}

#[test]
fn buffers_that_live_together_do_not_overlap() {
    for spec in shapes() {
        let arena = Plan::new(&spec).arena;
        for (i, a) in arena.buffers.iter().enumerate() {
            assert_eq!((a.offset % ALIGN, a.stride % ALIGN), (0, 0), "{} of {spec:?}", a.name);
            assert!(a.end() <= arena.bytes, "{} of {spec:?}", a.name);
            for b in &arena.buffers[..i] {
                let apart = a.end() <= b.offset || b.end() <= a.offset;
                assert!(apart || !collide(a, b), "{} and {} of {spec:?}", a.name, b.name);
            }
        }
    }
}

#[test]
fn sharing_memory_pays() {
    let arena = plan("nex-n2-mini").arena;
    let apart: usize = arena.buffers.iter().map(BufferPlan::bytes).sum();
    let share = arena.bytes as f64 / apart as f64;
    assert!(share < 0.8, "the arena takes {share:.2} of its buffers' bytes");
}

#[test]
fn columns_hold_what_the_stages_write() {
    for spec in shapes() {
        let arena = Plan::new(&spec).arena;
        let stride =
            |name: &str| arena.buffers.iter().find(|b| b.name == name).expect("a buffer").stride;
        let input = spec.n_embd.max(spec.value_dim()).max(spec.q_dim());
        let used = spec.n_expert_used;
        let least = [
            ("x", 4 * spec.n_embd),
            ("h", 4 * input),
            ("h_q8k", 292 * input.div_ceil(256)),
            ("h_q80", 40 * input.div_ceil(32)),
            ("qkv", 4 * spec.conv_dim()),
            ("z", 4 * spec.value_dim()),
            ("qg", 8 * spec.q_dim()),
            ("k", 4 * spec.kv_dim()),
            ("router", 4 * spec.n_expert),
            ("expert_ids", 4 * used),
            ("expert_weights", 4 * (used + 1)),
            ("ff", 4 * (used * spec.expert_ff + spec.shared_ff)),
            ("ff_q8k", 292 * (used * spec.expert_ff.div_ceil(256) + spec.shared_ff.div_ceil(256))),
            ("down", 4 * (used + 1) * spec.n_embd),
        ];
        for (name, bytes) in least {
            let stride = stride(name);
            assert!((bytes..bytes + ALIGN).contains(&stride), "{name} of {spec:?}: {stride}");
        }
        assert_eq!(MAX_COLUMNS, 512);
    }
}

#[test]
fn every_layer_has_its_slot() {
    for spec in shapes() {
        let mut next = [0, 0];
        for (i, layer) in Plan::new(&spec).layers.iter().enumerate() {
            let attention = (i + 1) % spec.full_attention_interval == 0;
            assert_eq!(layer.kind == LayerKind::Attention, attention);
            assert_eq!((layer.index, layer.slot), (i, next[usize::from(attention)]));
            next[usize::from(attention)] += 1;
        }
        assert_eq!(next, [spec.n_gdn(), spec.n_attn()]);
    }
}

/// The bar: six launches per layer, fifteen for the two ends; so 255 for forty layers.
#[test]
fn launches_stay_within_the_bar() {
    for spec in shapes() {
        let plan = Plan::new(&spec);
        for layer in &plan.layers {
            assert!(plan.launches_of(layer) <= 6, "layer {} of {}", layer.index, spec.name);
        }
        assert!(plan.launches_per_step() <= 6 * spec.n_layer + 15, "{}", spec.name);
    }
    for name in ["nex-n2-mini", "nex-n2-mini-8l", "tiny", "odd"] {
        let launches = plan(name).launches_per_step();
        assert!(launches <= 255, "{name}: {launches} launches per step");
    }
}

#[test]
fn launches_are_possible_on_every_gpu() {
    for spec in shapes() {
        for kernel in Plan::new(&spec).kernels {
            let columns: Vec<usize> = kernel.variants.iter().map(|launch| launch.columns).collect();
            assert_eq!(columns, COLUMN_BUCKETS);
            for launch in &kernel.variants {
                let [x, y, z] = launch.grid;
                assert!(x > 0 && y > 0 && z > 0, "{} {launch:?}", kernel.name);
                assert!(x < 1 << 31 && y < 1 << 16 && z < 1 << 16, "{} {launch:?}", kernel.name);
                assert!(launch.shared <= 48 << 10, "{} {launch:?}", kernel.name);
                assert!(launch.block <= 1024 && launch.block % 32 == 0);
            }
        }
    }
}

#[test]
fn kernel_names_are_distinct() {
    for spec in shapes() {
        let plan = Plan::new(&spec);
        let mut names: Vec<&str> = plan.kernels.iter().map(|k| k.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), plan.kernels.len());
    }
}

#[test]
fn segments_cover_all_layers_and_launches() {
    for spec in models() {
        let plan = Plan::new(&spec);
        for split in 0..=spec.n_layer + 1 {
            let segments = plan.segments(Some(split));
            let layers: Vec<usize> = segments.iter().flat_map(|s| s.layers.clone()).collect();
            assert_eq!(layers, (0..spec.n_layer).collect::<Vec<_>>(), "split {split}");
            let launches: usize = segments.iter().map(|s| s.launches).sum();
            assert_eq!(launches, plan.launches_per_step(), "split {split}");
            assert!(segments[0].embeds && segments[segments.len() - 1].head, "split {split}");
            assert_eq!(segments.iter().filter(|s| s.embeds).count(), 1);
            assert_eq!(segments.iter().filter(|s| s.head).count(), 1);
        }
    }
}

#[test]
fn a_token_of_nex_n2_mini_reads_two_gigabytes() {
    let plan = plan("nex-n2-mini");
    let cost = plan.report().cost;
    // 2.1 GB and 0.44 ms on an H200, its recurrent state (2 MiB and 96 KiB a layer) included.
    let bytes = cost.per_token(0, 18) as f64;
    assert!((2.0e9..2.2e9).contains(&bytes), "{bytes}");
    assert_eq!(cost.state, 30 * ((2 << 20) + (96 << 10)));
    // 10 layers, keys and values of 512: 20 KiB per token as f16.
    assert_eq!(cost.kv_values * 2, 20 << 10);
}

#[test]
fn files_of_other_converters_cost_the_same() {
    let plan = plan("tiny");
    let reference = plan.stored(mix::lookup("q8_0").expect("a mix"));
    let find = |name: &str| reference.iter().find(|t| t.name == name).expect("a tensor").clone();
    let merge = |parts: &[&str], name: &str| {
        let parts = parts.iter().map(|part| find(part));
        let bytes = parts.clone().map(|part| part.bytes).sum();
        let first = parts.into_iter().next().expect("at least one part");
        Stored { name: name.to_owned(), bytes, ..first }
    };
    let gone = ["blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"];
    let qkv = ["blk.2.attn_q.weight", "blk.2.attn_k.weight", "blk.2.attn_v.weight"];
    let mut fused: Vec<Stored> = reference
        .iter()
        .filter(|t| !gone.iter().chain(&qkv).any(|n| *n == t.name))
        .cloned()
        .collect();
    fused.push(merge(&gone, "blk.0.ffn_gate_up_exps.weight"));
    fused.push(merge(&qkv, "blk.2.attn_qkv.weight"));
    // A draft block and scales are not the trunk's.
    fused.push(Stored { name: "blk.6.attn_q.weight".to_owned(), ..find(qkv[0]) });
    fused.push(Stored { name: "blk.0.attn_qkv.scale".to_owned(), ..find("output_norm.weight") });
    let (a, b) = (plan.cost(&reference), plan.cost(&fused));
    assert_eq!((a.weights(), a.stored()), (b.weights(), b.stored()));
    assert_eq!(a.stage(Stage::MoeUp), b.stage(Stage::MoeUp));
    assert_eq!(a.stage(Stage::AttnProject), b.stage(Stage::AttnProject));
}

#[test]
fn a_tied_table_is_stored_once_and_read_whole() {
    let plan = plan("tiny");
    let mut weights = plan.stored(mix::lookup("q8_0").expect("a mix"));
    let untied = plan.cost(&weights);
    weights.retain(|tensor| tensor.name != "output.weight");
    let tied = plan.cost(&weights);
    assert_eq!(tied.weights(), untied.weights());
    assert_eq!(tied.stored(), untied.stored() - untied.stage(Stage::Head) + 4 * 256);
}

#[test]
fn another_bandwidth_scales_the_floor() {
    let plan = plan("nex-n2-mini");
    let mut report = plan.report();
    assert!(report.to_string().contains("floor time at 4800 GB/s"));
    report.bandwidth = 240.0;
    "some-file.gguf".clone_into(&mut report.weights);
    let text = report.to_string();
    assert!(text.contains("floor time at 240 GB/s") && text.contains("weights (some-file.gguf"));
    assert_eq!(plan.to_string(), Plan::new(&model("nex-n2-mini")).report().to_string());
}
