//! The recipes (tested scripts, each for one kind of claim) as prompts of MCP (`prompts/list` and `prompts/get`). A
//! person picks a prompt and fills it in. Until then, prompts use none of the model's context.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role,
};

use crate::gateway;
use crate::recipes::{RECIPES, Recipe};

/// The maximum length of an unknown prompt's name in a message, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Returns the prompts in the order in which clients list them.
pub(super) fn prompts() -> Vec<Prompt> {
    RECIPES.iter().map(prompt).collect()
}

fn prompt(recipe: &Recipe) -> Prompt {
    let arguments = recipe.arguments.iter().map(|argument| {
        PromptArgument::new(argument.name)
            .with_description(argument.description)
            .with_required(argument.is_required)
    });
    Prompt::new(recipe.name, Some(recipe.description), Some(arguments.collect()))
        .with_title(recipe.title)
}

/// Returns the message of a prompt. It contains the recipe's script with the given values.
pub(super) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    let Some(recipe) = Recipe::named(&request.name) else {
        let shown: String = request.name.chars().take(NAME_CHARS_MAX).collect();
        return Err(ErrorData::invalid_params(format!("Unknown prompt: {shown}"), None));
    };
    let given = request.arguments.clone().unwrap_or_default();
    let script = recipe.fill(&given).map_err(|error| {
        ErrorData::invalid_params(format!("Invalid arguments of {}: {error}", recipe.name), None)
    })?;
    let message = PromptMessage::new_text(Role::User, task(recipe, &script));
    Ok(GetPromptResult::new(vec![message]).with_description(recipe.description))
}

/// Returns the text for the model: the script to run, and the report to give.
fn task(recipe: &Recipe, script: &str) -> String {
    let tool = gateway::Tool::ExecutePythonCode.name();
    let fence = fence(script);
    let note = if recipe.note.is_empty() { String::new() } else { format!("\n\n{}", recipe.note) };
    format!(
        "{}\n\nRun this script with {tool}. Do not change its checks:\n\n{fence}python\n{script}{fence}{note}\n\nThen \
         report whether the claim is verified or refuted, with the computed values. If the script ended in another \
         way, report that nothing was verified.",
        recipe.description
    )
}

/// Returns a fence that is longer than every sequence of backticks in the script.
fn fence(script: &str) -> String {
    let longest = script.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_the_fence() {
        for (script, expected) in [("print(1)", "```"), ("'``'", "```"), ("'```' + '`'", "````")] {
            assert_eq!(fence(script), expected, "{script}");
        }
    }
}
