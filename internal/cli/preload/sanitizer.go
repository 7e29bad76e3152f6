// SPDX-License-Identifier: Apache-2.0

package preload

import (
	"os"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/node/program"
)

// Sanitizer is the library of AddressSanitizer that the program at path was linked with; empty: none. The program ends at
// once unless that is the first library loaded, and preloaded ones come before those that it was linked with.
func Sanitizer(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	read, err := program.Read(file)
	if err != nil {
		return ""
	}
	for _, name := range read.ReadImports(file).Libraries {
		if strings.HasPrefix(name, "libasan.so") || strings.HasPrefix(name, "libclang_rt.asan") {
			return name
		}
	}
	return ""
}
