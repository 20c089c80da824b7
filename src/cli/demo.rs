//! The model inside the program: a small one that tells stories.

/// Gives the embedded file the alignment that tensors in a mapped file have.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static DEMO: &Aligned<[u8]> = &Aligned(*include_bytes!("../../assets/tiny-q4_k_m.gguf"));

/// What the demo model is called in messages.
pub(super) const NAME: &str = "the built-in demo model";
/// What the demo model is asked if nothing else is asked.
pub(super) const PROMPT: &str = "Tell me a story.";

/// The demo model's GGUF file.
pub(super) fn bytes() -> &'static [u8] {
    &DEMO.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_demo_model_is_an_aligned_gguf_file() {
        assert_eq!(&super::bytes()[..4], b"GGUF");
        assert_eq!(super::bytes().as_ptr() as usize % 64, 0);
    }
}
