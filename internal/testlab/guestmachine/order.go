// SPDX-License-Identifier: Apache-2.0

package guestmachine

// order is what the first process is told, in orderFile of the initial file system.
type order struct {
	// Shown are folders and files of this machine that have the same place in the virtual one, read only.
	Shown []string
	// Modules is the folder below which the kernel's modules are, one of Shown.
	Modules string
	// Dir is where Command is run, with Environment beside what every command has.
	Dir                  string
	Command, Environment []string
}

const (
	orderFile   = "/order.json"
	modulesFile = "/modules"
	// hostTag and outTag are the names by which the machine mounts files of its host.
	hostTag, outTag = "host", "out"
	// OutDir is where the command finds Machine.Out.
	OutDir = "/out"
	// LogFile and statusFile are in Machine.Out: what the command said, and its exit status.
	LogFile    = "log"
	statusFile = "status"
)
