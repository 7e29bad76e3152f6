// SPDX-License-Identifier: Apache-2.0

package kernelconfig

import (
	"fmt"
	"io"
	"slices"
)

// WriteFragment writes the options of parts as a fragment of a kernel's configuration, for the kernel's merge_config.sh and the builder of
// Kata's guest kernels. All options are built in, because such kernels load no modules.
func WriteFragment(to io.Writer, parts []Part) error {
	var last string
	for _, option := range Options {
		if !slices.Contains(parts, option.Part) {
			continue
		}
		if comment := string(option.Part) + ": " + option.For; comment != last {
			if _, err := fmt.Fprintf(to, "# %s\n", comment); err != nil {
				return err
			}
			last = comment
		}
		if _, err := fmt.Fprintf(to, "CONFIG_%s=y\n", option.Name); err != nil {
			return err
		}
	}
	return nil
}
