// Package openapi embeds the generated OpenAPI v2 description of the REST API.
package openapi

import _ "embed"

// JSON is the OpenAPI v2 document, generated from the .proto and its REST rules.
//
//go:embed generated/coordsvc.swagger.json
var JSON []byte
