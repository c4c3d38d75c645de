//! Prints the model, engines and tools that contributed to a result.
//!
//! `cargo run --example ai_bill_of_materials`

#![expect(clippy::print_stdout, reason = "an example shows what it makes")]

use qwed_mcp::AiBom;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engines = ["qwed_tax.TaxVerifier", "qwed_legal.FairnessGuard"];
    let bom = AiBom::from_names("gpt-4o", engines, ["execute_python_code"])?;
    println!("{}", serde_json::to_string_pretty(&bom)?);
    assert_eq!(bom.compliance, "QWED_AI_SPM_v1");
    // The Python implementation has the same hash for the same names.
    assert_eq!(
        bom.manifest_hash,
        "98daf7bf6397564badbc301b8bba40335872f3a7b13a691186da5d8f33af1c9e"
    );

    println!("{:#}", bom.to_cyclonedx());
    Ok(())
}

#[test]
fn the_example_runs() {
    main().unwrap();
}
