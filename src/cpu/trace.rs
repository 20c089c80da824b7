//! A look at the values between stages, for tests that compare every intermediate with a reference.

/// One named vector, as a stage left it.
#[derive(Debug)]
pub struct TraceEvent<'a> {
    /// The stage that has just run.
    pub stage: &'static str,
    /// Trunk layer; 0 for `embed` and `head`.
    pub layer: usize,
    /// The arena's name for the buffer.
    pub name: &'static str,
    /// Column of the pass.
    pub column: usize,
    /// The values.
    pub values: &'a [f32],
}

/// Called once per buffer and column after every stage, from one thread.
pub type Trace = Box<dyn Fn(&TraceEvent<'_>) + Send + Sync>;
