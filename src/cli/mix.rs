//! Which known type mix a file resembles, and which combinations of types its stages hold.

use pantheon_codegen::family::{LayerSet, Stage, Tensor};
use pantheon_codegen::mix::{MIXES, Mix};
use pantheon_codegen::spec::StageMix;
use pantheon_codegen::types::BlockType;
use pantheon_codegen::{ModelSpec, Plan};

use crate::gguf::Gguf;

/// The mix with which the most tensors of the file agree.
pub(super) fn nearest(gguf: &Gguf, model: &ModelSpec) -> &'static Mix {
    let plan = Plan::new(model);
    let agreeing = |mix: &&Mix| {
        let same = |name: &str, ty: &str| gguf.tensor(name).is_some_and(|t| t.ty.name() == ty);
        plan.stored(mix).iter().filter(|tensor| same(&tensor.name, &tensor.ty)).count()
    };
    // Of equals the first: `max_by_key` alone would take the last.
    MIXES.iter().rev().max_by_key(agreeing).expect("the table of mixes is not empty")
}

/// Every combination of types that the matrices of a stage have in some layer of the file. Where a
/// tensor is fused with another or missing, the stage's combination cannot be named and is left
/// out.
pub(super) fn stage_mixes(gguf: &Gguf, model: &ModelSpec) -> Vec<StageMix> {
    let mut mixes: Vec<StageMix> = Vec::new();
    for stage in Stage::ALL {
        let runs = |layer: &usize| match stage.layers() {
            LayerSet::Global => *layer == 0,
            layers => layers.has(model.kind(*layer)),
        };
        for layer in (0..model.n_layer).filter(runs) {
            let ty =
                |tensor: &Tensor| BlockType::lookup(gguf.tensor(&tensor.name(layer))?.ty.name());
            let Some(types) = stage.matrices().map(ty).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let mix = StageMix { stage, types };
            if !mix.types.is_empty() && !mixes.contains(&mix) {
                mixes.push(mix);
            }
        }
    }
    mixes
}
