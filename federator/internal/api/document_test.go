// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

func TestDocumentIsUpToDate(t *testing.T) {
	data, err := Document()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../../docs/federation.openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	for text, into := range map[string]*any{string(kept): &want, string(data): &got} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(want, got) {
		t.Error("docs/federation.openapi.json is not what the types say; `make generate` writes it")
	}
}
