//! Random keys and tensors from fixed seeds: an error or weights, never a panic.

use pantheon::gguf::Value;
use pantheon::quant::GgmlType;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::file::ModelFile;
use crate::model::SHAPE;

fn value(rng: &mut SmallRng) -> Value {
    match rng.random_range(0..14) {
        0 => rng.random::<u32>().into(),
        1 => rng.random_range(0..300u32).into(),
        2 => u64::MAX.into(),
        3 => i64::MIN.into(),
        4 => (1u64 << rng.random_range(0..64)).into(),
        5 => f32::from_bits(rng.random()).into(),
        6 => f64::NAN.into(),
        7 => rng.random::<bool>().into(),
        8 => "".into(),
        9 => vec![true; rng.random_range(0..6)].into(),
        10 => vec![rng.random_range(0..5u32); rng.random_range(0..6)].into(),
        11 => Vec::<&str>::new().into(),
        12 => vec![rng.random::<i32>(), 1, 0, 2].into(),
        _ => vec![f32::INFINITY; 4].into(),
    }
}

/// Keys the plain file does not have, but which are read.
const MORE_KEYS: [&str; 10] = [
    "nextn_predict_layers",
    "attention.recurrent_layers",
    "attention.causal",
    "expert_group_count",
    "expert_weights_scale",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "ssm.v_head_reordered",
    "tokenizer.ggml.tokens",
];

fn change(file: &mut ModelFile, rng: &mut SmallRng) {
    let tensor = rng.random_range(0..file.tensors.len());
    match rng.random_range(0..7) {
        0 | 1 => {
            let key = rng.random_range(0..file.keys.len());
            file.keys[key].1 = value(rng);
        }
        2 => {
            let key = MORE_KEYS[rng.random_range(0..MORE_KEYS.len())];
            file.set(key, value(rng));
        }
        3 => drop(file.tensors.swap_remove(tensor)),
        4 => {
            let other = rng.random_range(0..file.tensors.len());
            if tensor != other {
                let name = file.tensors[other].name.clone();
                file.tensors[other].name = std::mem::replace(&mut file.tensors[tensor].name, name);
            }
        }
        5 => file.tensors[tensor].ne.reverse(),
        _ => {
            let name = format!("blk.{}.nextn.eh_proj.weight", rng.random_range(0..5));
            if file.tensors.iter().all(|t| t.name != name) {
                file.add(&name, &[rng.random_range(1..4)]);
            }
            file.tensors[tensor].ty = if rng.random() { GgmlType::I32 } else { GgmlType::F32 };
        }
    }
}

#[test]
fn random_changes() {
    let plain = ModelFile::plain();
    let (mut read, mut bound, mut refused) = (0, 0, 0);
    for seed in 0..1500 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut file = plain.clone();
        for _ in 0..rng.random_range(1..4) {
            change(&mut file, &mut rng);
        }
        let gguf = file.open();
        match pantheon::weights::FileShape::read(&gguf) {
            Ok(shape) => {
                read += 1;
                let _ = shape.choose("x", &[SHAPE]).map_err(|e| e.to_string());
            }
            Err(e) => assert!(e.to_string().len() < 2000, "{e}"),
        }
        match pantheon::weights::bind::<crate::model::Small>(&gguf) {
            Ok(_) => bound += 1,
            Err(e) => {
                refused += 1;
                assert!(!e.to_string().is_empty());
            }
        }
    }
    assert!(read > 100 && bound > 100 && refused > 100, "{read} {bound} {refused}");
}
