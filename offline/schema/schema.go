package schema

import _ "embed"

//go:generate go test . -run TestTheSchemaFollowsTheTypes -update

// JSON is the schema.
//
//go:embed sidecartemplate.json
var JSON []byte
