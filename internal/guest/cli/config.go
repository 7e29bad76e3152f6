// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/commandline"
)

const (
	// programPath is the path of ktsn-guest in virtual machines, and packagedPath that of the Debian package.
	programPath  = "/usr/local/sbin/ktsn-guest"
	packagedPath = "/usr/sbin/ktsn-guest"
	chronySocket = "/run/chrony/ktsn.sock"
)

func newConfig(env *commandline.Environment) *cobra.Command {
	var interfaces []string
	var ptp string
	command := &cobra.Command{
		Use:   "config systemd|cloud-init|chrony",
		Short: "Print a unit for systemd, a snippet for cloud-init, or chronyd's reference clock",
		Long: "Prints a unit that runs ktsn-guest, a snippet of user data for cloud-init that writes and starts it, or lines of\n" +
			"chrony.conf by which chronyd sets this machine's clock by the host's. On KVM, with the module ptp_kvm, chronyd reads\n" +
			"the host's clock from /dev/ptp0 itself (--ptp); else it is given samples by `ktsn-guest run --chrony-socket`.",
		Args: commandline.OneArgument("systemd, cloud-init or chrony"),
		RunE: func(_ *cobra.Command, arguments []string) error {
			text, err := configuration(arguments[0], env.Executable, interfaces, ptp)
			if err != nil {
				return commandline.Usage(err)
			}
			_, err = fmt.Fprint(env.Stdout, text)
			return err
		},
	}
	addInterfaces(command, &interfaces)
	command.Flags().StringVar(&ptp, "ptp", "", "`DEVICE` of ptp_kvm, such as /dev/ptp0, for chronyd")
	return command
}

func configuration(kind, executable string, interfaces []string, ptp string) (string, error) {
	if kind == "chrony" {
		return chronyLines(ptp), nil
	}
	if err := checkInterfaces(interfaces); err != nil {
		return "", err
	}
	switch kind {
	case "systemd":
		if executable != packagedPath {
			executable = programPath
		}
		return unit(executable, interfaces, ptp), nil
	case "cloud-init":
		return userData(interfaces, ptp), nil
	}
	return "", fmt.Errorf(`%q is none of "systemd", "cloud-init" and "chrony"`, kind)
}

func unit(program string, interfaces []string, ptp string) string {
	command := program + " run --interface " + strings.Join(interfaces, ",")
	capabilities := "CAP_NET_ADMIN CAP_BPF CAP_PERFMON CAP_SYS_ADMIN"
	if ptp == "" {
		command += " --chrony-socket " + chronySocket
		// Folder and socket are those of chronyd's user alone.
		capabilities += " CAP_DAC_OVERRIDE"
	}
	return `[Unit]
Description=Transmit times that hold outside of this virtual machine
Documentation=man:ktsn-guest(8)
After=network.target

[Service]
ExecStart=` + command + `
Restart=always
RestartSec=1
CapabilityBoundingSet=` + capabilities + `
NoNewPrivileges=yes
ProtectHome=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
`
}

// slowly limits chronyd's slew, in ppm, to the maximum that ktsn-guest assumes between two updates.
const slowly = "maxslewrate 500\nmakestep 0.001 3\n"

// chronyLines returns lines of chrony.conf. Both reference clocks are the host's CLOCK_REALTIME.
func chronyLines(ptp string) string {
	if ptp != "" {
		return "refclock PHC " + ptp + " poll 0 dpoll -2 offset 0 stratum 2\n" + slowly
	}
	// The bound that ktsn-guest has where machines are emulated; chronyd takes half of a delay for an error.
	return "refclock SOCK " + chronySocket + " poll 0 filter 8 delay 0.001 stratum 2\n" + slowly
}

func userData(interfaces []string, ptp string) string {
	return `#cloud-config
write_files:
  - path: /etc/systemd/system/ktsn-guest.service
    content: |
` + indented(unit(programPath, interfaces, ptp)) + `  - path: /etc/chrony/conf.d/ktsn.conf
    content: |
` + indented(chronyLines(ptp)) + `runcmd:
  - [systemctl, daemon-reload]
  - [systemctl, try-restart, chrony.service]
  - [systemctl, enable, --now, ktsn-guest.service]
`
}

func indented(text string) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			line = "      " + line
		}
		all.WriteString(line)
	}
	return all.String()
}
