// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"embed"
	"strings"
)

//go:embed profiles/*.yaml
var shipped embed.FS

// ShippedProfiles are the names of the profiles in the program.
func ShippedProfiles() []string {
	entries, err := shipped.ReadDir("profiles")
	if err != nil {
		return nil // impossible: the folder is embedded
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), ".yaml")
	}
	return names
}

// shippedProfile returns the text of a shipped profile as a template; false if there is none of that name.
func shippedProfile(name string) ([]byte, bool) {
	text, err := shipped.ReadFile("profiles/" + name + ".yaml")
	return text, err == nil && name != ""
}
