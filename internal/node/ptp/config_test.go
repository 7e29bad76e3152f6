// SPDX-License-Identifier: Apache-2.0

package ptp

import (
	"bytes"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// parse reads options as a command line has them.
func parse(t *testing.T, line string) *Options {
	t.Helper()
	options := &Options{}
	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	options.Register(flags)
	testlab.Must(t, flags.Parse(strings.Fields(line)))
	return options
}

// render is the configuration of a command line.
func render(t *testing.T, line string, stamping Stamping) string {
	t.Helper()
	options := parse(t, line)
	testlab.Must(t, options.Check())
	var text bytes.Buffer
	testlab.Must(t, options.Config(stamping).Write(&text))
	return text.String()
}

// squeeze writes a configuration with one space between name and value.
func squeeze(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 {
			lines = append(lines, strings.Join(words, " "))
		}
	}
	return strings.Join(lines, "; ")
}

// guestLine makes examples/ptp4l-guest.conf; the example of docs/guide/clocks.md is the same.
const guestLine = "--device eth1 --profile gptp --role guest --priority1 128 --priority2 128 --log-announce-interval 1 --set follow_up_info=0 " +
	"--set ptp_dst_mac=01:1B:19:00:00:00 --set tx_timestamp_timeout=100 --set summary_interval=0"

func TestTheConfigurationOfAGuestIsTheOneOfTheExample(t *testing.T) {
	want, err := os.ReadFile("../../../examples/ptp4l-guest.conf")
	testlab.Must(t, err)
	if got := render(t, guestLine, Stamping{Hardware: true, Devices: []Device{{Name: "eth1"}}}); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOptionsBecomeSettings(t *testing.T) {
	hardware := Stamping{Hardware: true, Devices: []Device{{Name: "eth0", Hardware: true}}}
	two := Stamping{Hardware: true, Devices: []Device{{Name: "eth0", Clock: 0}, {Name: "eth1", Clock: 1}}}
	const end1588 = "network_transport UDPv4; delay_mechanism E2E"
	const gptpRest = "min_neighbor_prop_delay -20000000; assume_two_step 1; path_trace_enabled 1; follow_up_info 1; " +
		"ptp_dst_mac 01:80:C2:00:00:0E; network_transport L2; delay_mechanism P2P"
	for name, test := range map[string]struct {
		line     string
		stamping Stamping
		want     string
	}{
		"a sender by default": {"--device eth0", hardware, "[global]; " + end1588 + "; [eth0]"},
		"a receiver":          {"--device eth0 --role receiver", hardware, "[global]; slaveOnly 1; " + end1588 + "; [eth0]"},
		"a switch of two ports": {"--device eth0,eth1 --role switch --transport L2", two,
			"[global]; priority1 127; network_transport L2; delay_mechanism E2E; boundary_clock_jbod 1; [eth0]; [eth1]"},
		"a grandmaster": {"--device eth0 --role grandmaster --priority1 1", hardware,
			"[global]; priority1 1; " + end1588 + "; clockClass 13; [eth0]; masterOnly 1"},
		"a grandmaster with software": {"--device eth0 --role grandmaster", Stamping{},
			"[global]; " + end1588 + "; time_stamping software; free_running 1; clockClass 13; [eth0]; masterOnly 1"},
		"a grandmaster with GNSS": {"--device eth0 --role grandmaster --set clockClass=6 --set clockAccuracy=0x21", hardware,
			"[global]; " + end1588 + "; clockClass 6; clockAccuracy 0x21; [eth0]; masterOnly 1"},
		"software and the rest": {"--device eth0 --domain 7 --priority1 2 --priority2 3 --log-sync-interval -3 --log-announce-interval 0 --log-delay-interval -1 " +
			"--delay-mechanism P2P --servo linreg --free-running --utc-offset 38 --set step_threshold=0.5", Stamping{},
			"[global]; priority1 2; priority2 3; domainNumber 7; logAnnounceInterval 0; logSyncInterval -3; logMinPdelayReqInterval -1; " +
				"network_transport UDPv4; delay_mechanism P2P; clock_servo linreg; time_stamping software; free_running 1; utc_offset 38; step_threshold 0.5; [eth0]"},
		"gPTP": {"--device eth0 --profile gptp", hardware, "[global]; gmCapable 1; priority1 248; priority2 248; logAnnounceInterval 0; " +
			"logSyncInterval -3; syncReceiptTimeout 3; neighborPropDelayThresh 800; " + gptpRest + "; [eth0]; transportSpecific 0x1"},
		"gPTP of a switch with software": {"--device eth0 --profile gptp --role switch --domain 1 --log-delay-interval 1", Stamping{},
			"[global]; gmCapable 1; priority1 246; priority2 248; domainNumber 1; logAnnounceInterval 0; logSyncInterval -3; " +
				"logMinPdelayReqInterval 1; syncReceiptTimeout 3; " + gptpRest + "; time_stamping software; [eth0]; transportSpecific 0x1"},
		"gPTP of a receiver": {"--device eth0 --profile gptp --role receiver", hardware, "[global]; gmCapable 0; priority1 255; priority2 248; " +
			"logAnnounceInterval 0; logSyncInterval -3; syncReceiptTimeout 3; neighborPropDelayThresh 800; " + gptpRest + "; [eth0]; transportSpecific 0x1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := squeeze(render(t, test.line, test.stamping)); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for line, sentence := range map[string]string{
		"":                                                   "--device is missing",
		"--device eth0 --device eth0":                        "--device eth0 is given twice",
		"--device eth0,":                                     `--device "" is no name`,
		"--device eth0/1":                                    `--device "eth0/1" is no name`,
		"--device e]th0":                                     "is no name",
		"--device eth0 --profile g8275":                      `--profile "g8275": give 1588 or gptp`,
		"--device eth0 --role master":                        `--role "master": give sender, receiver, switch, guest or grandmaster`,
		"--device eth0 --transport UDPv6":                    `--transport "UDPv6": give L2 or UDPv4`,
		"--device eth0 --servo ntpshm":                       `--servo "ntpshm": give pi or linreg`,
		"--device eth0 --time-stamping both":                 "give auto, hardware or software",
		"--device eth0 --delay-mechanism e2e":                "give E2E or P2P",
		"--device eth0 --profile gptp --transport UDPv4":     "802.1AS has no messages over IP",
		"--device eth0 --profile gptp --delay-mechanism E2E": "give P2P",
		"--device eth0 --domain 128":                         "--domain 128: give 0 to 127",
		"--device eth0 --priority1 256":                      "--priority1 256: give 0 to 255",
		"--device eth0 --log-sync-interval 8":                "give -7 to 7",
		"--device eth0 --utc-offset 1":                       "--utc-offset 1: give the seconds of TAI - UTC",
		"--device eth0 --set domainNumber=3":                 "--set domainNumber: give --domain instead",
		"--device eth0 --set uds_address=/x":                 "give --run-dir instead",
		"--device eth0 --set verbose=1":                      "ktsn-ptp needs that option",
		"--device eth0 --set =3":                             `--set "" is no name`,
		"--device eth0 --set step_threshold=":                `--set step_threshold: "" is no value`,
		"--device eth0 --set a=1 --set a=2":                  "--set a is given twice",
	} {
		if err := parse(t, line).Check(); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%q: %v, want %q in it", line, err, sentence)
		}
	}
	hidden := &Options{Devices: []string{"eth0"}, Profile: ProfileDefault, Role: RoleSender, Servo: "pi", Stamping: StampAuto,
		Extra: []Setting{{"userDescription", "a\n[eth1]"}}}
	if err := hidden.Check(); err == nil {
		t.Error("a value may open a section of its own")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("eth0", "step_threshold", "0.5")
	f.Add("e\n[x]", "a\nb", "c\nd")
	f.Fuzz(func(t *testing.T, device, name, value string) {
		options := &Options{Devices: []string{device}, Profile: ProfileGPTP, Role: RoleSender, Servo: "pi", Stamping: StampAuto,
			Extra: []Setting{{name, value}}}
		if options.Check() != nil {
			return
		}
		var text bytes.Buffer
		testlab.Must(t, options.Config(Stamping{}).Write(&text))
		sections := 0
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(line, "[") {
				sections++
			}
		}
		if sections != 2 || !slices.Contains(strings.Split(text.String(), "\n"), "["+device+"]") {
			t.Errorf("%q, %q, %q make\n%s", device, name, value, text.String())
		}
	})
}
