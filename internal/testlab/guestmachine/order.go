// SPDX-License-Identifier: Apache-2.0

package guestmachine

// order configures the first process, in orderFile of the initial file system.
type order struct {
	// Shown are folders and files of this machine that are visible at the same path in the virtual machine, read-only.
	Shown []string
	// Modules is the folder of the kernel's modules, one of Shown.
	Modules string
	// Dir is the working directory of Command, Environment is added to the environment of all commands.
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
	// LogFile and statusFile in Machine.Out are the command's output and its exit status.
	LogFile    = "log"
	statusFile = "status"
)
