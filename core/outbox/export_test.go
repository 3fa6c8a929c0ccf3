package outbox

// CountRows lets the tests ask the planner about the very statement that runs.
const CountRows = countRows
