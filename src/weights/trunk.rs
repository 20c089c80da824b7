//! Which kind of file it is, and how many trunk layers it really has.

use super::sanity::{belongs, block};
use crate::gguf::{Gguf, GgufError};

/// The architecture this program runs.
pub(super) const ARCHITECTURE: &str = "qwen35moe";
pub(super) const DAMAGED_HEADER: &str =
    "the header is incomplete; convert the model again with a current llama.cpp";

/// Refuses files that are not a language model of the right architecture.
pub(super) fn check_kind(gguf: &Gguf) -> Result<(), GgufError> {
    const TYPE: &str = "general.type";
    const ARCH: &str = "general.architecture";
    let refuse = |key: &str, expected: &str, found: &str, remedy: &str| {
        Err(gguf.key_error(key, format!("\"{expected}\""), format!("{found:.64?}"), remedy))
    };
    match gguf.str(TYPE)? {
        None | Some("model") => {}
        Some(found) => {
            let remedy = match found {
                "mmproj" => "this is a vision projector; give the language model it goes with",
                "adapter" => "this is a LoRA adapter; merge it into its base model first",
                _ => "give a file that holds a whole language model",
            };
            return refuse(TYPE, "model", found, remedy);
        }
    }
    let Some(found) = gguf.str(ARCH)? else {
        return Err(gguf.key_error(
            ARCH,
            ARCHITECTURE,
            "no such key",
            "give a language model's GGUF",
        ));
    };
    let remedy = match found {
        ARCHITECTURE => return Ok(()),
        "qwen35" => {
            "it is the dense sibling, which has no experts; this program runs the MoE models"
        }
        "qwen3next" => "it is the predecessor, with other tensors and another order of value heads",
        "qwen4exp" => "it is a later architecture, with other layers",
        "qwen35moe_mtp" => {
            "it was made by a fork; convert the model again with a current llama.cpp"
        }
        "clip" => "this is a vision projector; give the language model it goes with",
        _ => "this program runs one family only: Qwen3.5/3.6 MoE, Nex-N2-mini and their siblings",
    };
    refuse(ARCH, ARCHITECTURE, found, remedy)
}

/// Refuses value heads in the checkpoint's order; returns a warning where that is possible. Only a
/// flag of one converter (which also puts vision tensors into the file) tells; without it the order
/// is the one this architecture is defined with.
pub(super) fn check_head_order(gguf: &Gguf) -> Result<Option<String>, GgufError> {
    let key = format!("{ARCHITECTURE}.ssm.v_head_reordered");
    let flag = gguf.bool(&key)?;
    if flag == Some(false) {
        return Err(gguf.key_error(
            &key,
            "true: value heads tiled over the key heads",
            "false: value heads grouped by key head",
            "convert the model again with a current llama.cpp",
        ));
    }
    let vision = gguf.tensors().iter().any(|t| t.name.starts_with("v."));
    Ok((flag.is_none() && vision).then(|| {
        "the file holds vision tensors and does not say in which order its value heads are; if it \
         writes nonsense, convert the model again with a current llama.cpp"
            .to_owned()
    }))
}

/// Bytes of the tensors that are meant for a trunk of `n_layer` layers, as far as names tell.
pub(crate) fn trunk_bytes(gguf: &Gguf, n_layer: usize) -> u64 {
    let meant = gguf.tensors().iter().filter(|tensor| belongs(&tensor.name, n_layer));
    meant.map(|tensor| tensor.data.len() as u64).sum()
}

/// What the file's blocks are.
pub(super) struct Trunk {
    /// Layers of the model itself.
    pub(super) layers: usize,
    /// Draft (multi-token prediction) blocks after them.
    pub(super) draft_blocks: usize,
    /// Where that differs from what the header announces.
    pub(super) warning: Option<String>,
}

/// Counts trunk layers by their tensors: consecutive blocks from 0 that have `attn_norm` and no
/// `nextn.eh_proj`. Headers announce draft blocks that are not there, and the other way round.
pub(super) fn count_layers(gguf: &Gguf) -> Result<Trunk, GgufError> {
    let has = |i: usize, tensor: &str| gguf.tensor(&format!("blk.{i}.{tensor}.weight")).is_some();
    let is_draft = |i: usize| has(i, "nextn.eh_proj");
    let layers = (0..).take_while(|&i| has(i, "attn_norm") && !is_draft(i)).count();
    let draft_blocks = (layers..).take_while(|&i| is_draft(i)).count();

    let number = |key: &str| gguf.u64(&format!("{ARCHITECTURE}.{key}"));
    let missing = |i: usize, remedy: &str| {
        let name = format!("blk.{i}.attn_norm.weight");
        gguf.tensor_error(&name, "a trunk layer", "no such tensor", remedy)
    };
    let Some(blocks) = number("block_count")? else {
        let key = format!("{ARCHITECTURE}.block_count");
        return Err(gguf.key_error(&key, "the number of layers", "no such key", DAMAGED_HEADER));
    };
    let announced_drafts = number("nextn_predict_layers")?.unwrap_or(0);
    let announced = blocks.saturating_sub(announced_drafts);
    if layers == 0 {
        let drafts_only = gguf.tensors().iter().any(|t| t.name.contains(".nextn."));
        return Err(missing(
            0,
            match (drafts_only, gguf.tensors().is_empty()) {
                (true, _) => "this file holds a draft (MTP) block only; give the main model",
                (_, true) => {
                    "this file holds no tensors at all, perhaps a vocabulary; give the model"
                }
                _ => "the file is incomplete; convert the model again",
            },
        ));
    }
    // A block with tensors behind the last counted one is a layer with a hole, not a shorter model.
    let torn = |i: usize| i >= layers && (i as u64) < announced && !is_draft(i);
    if gguf.tensors().iter().filter_map(|t| block(&t.name)).any(torn) {
        return Err(missing(layers, "the file is incomplete; convert the model again"));
    }
    let warning = (announced != layers as u64).then(|| {
        format!(
            "block_count {blocks} less nextn_predict_layers {announced_drafts} announces \
             {announced} layers, the file has {layers}: running those"
        )
    });
    Ok(Trunk { layers, draft_blocks, warning })
}
