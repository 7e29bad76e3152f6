// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"embed"
	"strings"
)

//go:embed profiles/*.yaml
var shipped embed.FS

// ShippedProfiles are the names of the profiles that come with the program.
func ShippedProfiles() []string {
	entries, err := shipped.ReadDir("profiles")
	if err != nil {
		return nil // cannot be: the folder is part of the program
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = strings.TrimSuffix(entry.Name(), ".yaml")
	}
	return names
}

// shippedProfile returns the text of a shipped profile, to begin one's own from; false when there is none of that name.
func shippedProfile(name string) ([]byte, bool) {
	text, err := shipped.ReadFile("profiles/" + name + ".yaml")
	return text, err == nil && name != ""
}
