// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"testing"

	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

var update = flag.Bool("update", false, "write docs/reference/federation.openapi.json")

// TestDocumentIsUpToDate compares the OpenAPI document, which depends only on the types, with the one in docs.
func TestDocumentIsUpToDate(t *testing.T) {
	const path = "../../../docs/reference/federation.openapi.json"
	api := humago.New(http.NewServeMux(), config())
	(&API{}).register(api)
	text, err := json.MarshalIndent(api.OpenAPI(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(kept, text) {
		t.Errorf("%s is not what the types say (%v); `make generate` writes it", path, err)
	}
}
