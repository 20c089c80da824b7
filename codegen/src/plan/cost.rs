//! Bytes that a token moves, and how long that takes at a given bandwidth.

use super::{Layer, Plan};
use crate::family::{Dim, Form, LayerKind, LayerSet, Stage, TENSORS, Tensor};
use crate::mix::{Mix, Site};

/// A tensor as a file holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Name in the file.
    pub name: String,
    /// Shape, the contiguous dimension first.
    pub ne: Vec<u64>,
    /// Name of its type, as ggml prints it.
    pub ty: String,
    /// Bytes of the whole tensor.
    pub bytes: u64,
}

/// What a class of tensors costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCost {
    /// The class: a name without layer and ending.
    pub class: String,
    /// The stage that reads it.
    pub stage: Stage,
    /// Types with the number of tensors of each, in order of appearance.
    pub types: Vec<(String, usize)>,
    /// Bytes of all its tensors.
    pub stored: u64,
    /// Bytes that one token reads of them.
    pub read: u64,
}

/// What a token costs with the weights of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Per class, by stage.
    pub classes: Vec<ClassCost>,
    /// Recurrent state of all GDN layers, in bytes; read and written once per token.
    pub state: u64,
    /// Keys and values of one token of context in all attention layers, in values.
    pub kv_values: u64,
}

/// Bytes of 32 cached values in the formats whose figures are shown.
pub(super) const KV_FORMATS: [(&str, u64); 2] = [("f16", 64), ("q4", 18)];

impl Cost {
    /// Bytes of all weights.
    pub fn stored(&self) -> u64 {
        self.classes.iter().map(|class| class.stored).sum()
    }

    /// Bytes of weights that one token reads.
    pub fn weights(&self) -> u64 {
        self.classes.iter().map(|class| class.read).sum()
    }

    /// Bytes of weights that one token reads in a stage, over all layers.
    pub fn stage(&self, stage: Stage) -> u64 {
        self.classes.iter().filter(|class| class.stage == stage).map(|class| class.read).sum()
    }

    /// Bytes that one token moves after `context` tokens whose 32 cached values take `kv_block`
    /// bytes: weights, the recurrent state there and back, all keys and values.
    pub fn per_token(&self, context: u64, kv_block: u64) -> u64 {
        self.weights() + 2 * self.state + context * self.kv_values * kv_block / 32
    }
}

/// Milliseconds that moving `bytes` takes at `bandwidth` GB/s.
pub(super) fn floor_ms(bytes: u64, bandwidth: f64) -> f64 {
    bytes as f64 / bandwidth / 1e6
}

impl Plan {
    /// Every tensor of the model as `mix` stores it.
    pub fn stored(&self, mix: &Mix) -> Vec<Stored> {
        let global = TENSORS.iter().filter(|t| t.layers == LayerSet::Global);
        let in_layer = |layer: &Layer| {
            let (layer, kind) = (*layer, layer.kind);
            TENSORS.iter().filter(move |t| t.layers.has(kind)).map(move |t| (t, layer))
        };
        let first = self.layers[0];
        let all = global.map(|t| (t, first)).chain(self.layers.iter().flat_map(in_layer));
        all.map(|(tensor, layer)| self.stored_tensor(mix, tensor, &layer)).collect()
    }

    fn stored_tensor(&self, mix: &Mix, tensor: &Tensor, layer: &Layer) -> Stored {
        let s = &self.spec;
        let used = tensor.ne.iter().filter(|dim| **dim != Dim::One);
        let ne: Vec<u64> = used.map(|dim| s.dim(*dim) as u64).collect();
        let site = Site {
            layer: layer.index,
            slot: layer.slot,
            n_layer: s.n_layer,
            n_expert: s.n_expert,
            group: s.n_head / s.n_head_kv,
            inputs: ne[0] as usize,
        };
        let ty = mix.tensor_type(tensor, &site);
        let bytes = ty.bytes_of(ne.iter().product());
        Stored { name: tensor.name(layer.index), ne, ty: ty.name.to_owned(), bytes }
    }

    /// What a token costs with these weights. Tensors that the trunk does not read (a draft block,
    /// scales beside a tensor) are not counted.
    pub fn cost(&self, weights: &[Stored]) -> Cost {
        let mut classes: Vec<ClassCost> = Vec::new();
        for tensor in weights {
            let Some((class, known, kind)) = self.identify(&tensor.name) else { continue };
            let read = match known {
                _ if class == "token_embd" => tensor.bytes / self.spec.n_vocab as u64,
                known if known.form == Form::Experts => {
                    tensor.bytes / self.spec.n_expert as u64 * self.spec.n_expert_used as u64
                }
                _ => tensor.bytes,
            };
            let stage = match (known.stage, kind) {
                (Stage::GdnProject, Some(LayerKind::Attention)) => Stage::AttnProject,
                (stage, _) => stage,
            };
            let same = |c: &ClassCost| c.class == class && c.stage == stage;
            let at = classes.iter().position(same).unwrap_or_else(|| {
                let class = class.to_owned();
                classes.push(ClassCost { class, stage, types: Vec::new(), stored: 0, read: 0 });
                classes.len() - 1
            });
            classes[at].add(tensor, read);
        }
        self.count_tied_head(&mut classes);
        classes.sort_by_key(|class| class.stage);
        let s = &self.spec;
        let state = 4 * s.n_gdn() * (s.delta_len() + s.conv_len());
        let kv_values = 2 * s.n_attn() * s.kv_dim();
        Cost { classes, state: state as u64, kv_values: kv_values as u64 }
    }

    /// A file without a head of its own multiplies by the embedding table.
    fn count_tied_head(&self, classes: &mut Vec<ClassCost>) {
        if classes.iter().any(|class| class.class == "output") {
            return;
        }
        if let Some(table) = classes.iter().find(|class| class.class == "token_embd") {
            let (stage, read) = (Stage::Head, table.stored);
            let class = "output (tied)".to_owned();
            classes.push(ClassCost { class, stage, types: table.types.clone(), stored: 0, read });
        }
    }

    /// A tensor's class, the tensor of the family that stands for it, and the kind of its layer.
    /// Fused tensors stand where their first part does.
    fn identify<'n>(&self, name: &'n str) -> Option<(&'n str, &'static Tensor, Option<LayerKind>)> {
        let (layer, rest) = match name.strip_prefix("blk.") {
            Some(rest) => {
                let (index, rest) = rest.split_once('.')?;
                (Some(self.layers.get(index.parse::<usize>().ok()?)?), rest)
            }
            None => (None, name),
        };
        let class = rest.strip_suffix(".weight").unwrap_or(rest);
        let kind = layer.map(|layer| layer.kind);
        let part = match (class, kind) {
            ("ffn_gate_up_exps", _) => "ffn_gate_exps",
            ("attn_qkv", Some(LayerKind::Attention)) => "attn_q",
            (class, _) => class,
        };
        let here = |t: &&Tensor| kind.is_none_or(|kind| t.layers.has(kind));
        let known = TENSORS.iter().filter(here).find(|t| t.class() == part)?;
        Some((class, known, kind))
    }
}

impl ClassCost {
    fn add(&mut self, tensor: &Stored, read: u64) {
        self.stored += tensor.bytes;
        self.read += read;
        match self.types.iter_mut().find(|(ty, _)| *ty == tensor.ty) {
            Some((_, count)) => *count += 1,
            None => self.types.push((tensor.ty.clone(), 1)),
        }
    }
}
