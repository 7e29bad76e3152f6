// SPDX-License-Identifier: Apache-2.0

// Command openapi writes the OpenAPI document of the federator's API to standard output; see scripts/generate.sh.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/kubernetsn/kubernetsn/federator/internal/api"
)

func main() {
	document, err := api.Document()
	var text bytes.Buffer
	if err == nil {
		err = json.Indent(&text, document, "", "  ")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, text.String())
}
