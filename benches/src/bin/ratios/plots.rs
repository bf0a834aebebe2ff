//! Pictures of what the table hides.

use std::error::Error;
use std::path::Path;

pub(crate) fn draw(_folder: &Path) -> Result<(), Box<dyn Error>> {
    Ok(())
}
