// SPDX-License-Identifier: Apache-2.0

package kernelconfig

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Config has the options of a kernel that are built in or modules, by name without CONFIG_.
type Config map[string]bool

// Read reads a configuration in the format of .config.
func Read(from io.Reader) (Config, error) {
	config := Config{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if name, ok := strings.CutPrefix(name, "CONFIG_"); ok && (value == "y" || value == "m") {
			config[name] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(config) == 0 {
		return nil, errors.New("it is no kernel's configuration: it has no line CONFIG_...=y")
	}
	return config, nil
}

// ReadFile reads a configuration from a file, which may be compressed with gzip.
func ReadFile(path string) (config Config, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's configuration: %w", err)
	}
	defer file.Close()
	var from io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", path, err)
		}
	}
	if config, err = Read(from); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

// ReadRunning reads the configuration of the running kernel, from the kernel itself or from a file of the distribution.
func ReadRunning() (Config, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, err
	}
	release := unix.ByteSliceToString(name.Release[:])
	places := []string{"/proc/config.gz", "/boot/config-" + release, "/lib/modules/" + release + "/config"}
	for _, place := range places {
		config, err := ReadFile(place)
		if !errors.Is(err, os.ErrNotExist) {
			return config, err
		}
	}
	return nil, fmt.Errorf("the kernel %s does not show its configuration (IKCONFIG_PROC), and there is none of %s; give the file by --config",
		release, strings.Join(places[1:], " and "))
}

// Missing returns the required options of parts that a kernel lacks.
func (c Config) Missing(parts []Part) (missing []Option) {
	for _, option := range Options {
		if slices.Contains(parts, option.Part) && !option.Comfort && !c[option.Name] {
			missing = append(missing, option)
		}
	}
	return missing
}
