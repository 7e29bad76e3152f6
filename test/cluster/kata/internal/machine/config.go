// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"

	"github.com/pelletier/go-toml"
)

// Config is a part of Kata's configuration, with its names; ClockCommand is not Kata's.
type Config struct {
	Hypervisor struct {
		QEMU QEMU `toml:"qemu"`
	} `toml:"hypervisor"`
	Runtime struct {
		// DANConf is the folder of files with network devices, "" for none.
		DANConf string `toml:"dan_conf"`
	} `toml:"runtime"`
}

// QEMU configures a machine.
type QEMU struct {
	Path       string `toml:"path"`
	Kernel     string `toml:"kernel"`
	Initrd     string `toml:"initrd"`
	Processors int    `toml:"default_vcpus"`
	MemoryMiB  int    `toml:"default_memory"`
	// ClockCommand answers ktsn-guest. It gets the path of a socket as its last argument, and ends with the machine.
	ClockCommand []string `toml:"clock_command"`
}

// ReadConfig reads a configuration file.
func ReadConfig(path string) (*Config, error) {
	tree, err := toml.LoadFile(path)
	config := &Config{}
	if err == nil {
		err = tree.Unmarshal(config)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	if qemu := config.Hypervisor.QEMU; qemu.Path == "" || qemu.Kernel == "" || qemu.Initrd == "" || qemu.Processors < 1 || qemu.MemoryMiB < 1 {
		return nil, fmt.Errorf("configuration %s: hypervisor.qemu needs path, kernel, initrd, default_vcpus and default_memory", path)
	}
	return config, nil
}
