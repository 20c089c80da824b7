//! The two norms of the model.

/// RMS norm: `gain[i] x[i] / sqrt(mean(x^2) + eps)`, for `x` and `gain` of the same length.
///
/// The gain is used as stored: the file already holds the one that training leaves out.
pub fn rms(x: &[f64], gain: &[f32], eps: f64) -> Vec<f64> {
    assert_eq!(x.len(), gain.len());
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean + eps).sqrt();
    x.iter().zip(gain).map(|(x, &g)| x * scale * f64::from(g)).collect()
}

/// RMS norm of every `gain.len()` elements of `x` on their own, all with the same gain.
pub fn rms_heads(x: &[f64], gain: &[f32], eps: f64) -> Vec<f64> {
    x.chunks_exact(gain.len()).flat_map(|head| rms(head, gain, eps)).collect()
}

/// L2 norm: `x / sqrt(sum(x^2) + eps)`; epsilon stands inside the root.
pub fn l2(x: &[f64], eps: f64) -> Vec<f64> {
    let scale = 1.0 / (x.iter().map(|x| x * x).sum::<f64>() + eps).sqrt();
    x.iter().map(|x| x * scale).collect()
}
