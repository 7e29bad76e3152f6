// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func recorded(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestParseSubscriber(t *testing.T) {
	got, err := ParseSubscriber(recorded(t, "sub-1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	// Between the ends of its first and of its last second but one.
	if want := (84832 - 21565) / 3.0; math.Abs(got.SamplesPerSecond-want) > 1e-6 || got.Seconds != 3 {
		t.Errorf("%v samples a second in %d s, want %v in 3", got.SamplesPerSecond, got.Seconds, want)
	}
	if got.Samples != 92433 || got.Lost != 0 {
		t.Errorf("%d samples, %d lost", got.Samples, got.Lost)
	}
}

func TestParsePublisher(t *testing.T) {
	got, err := ParsePublisher(recorded(t, "ping-4.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Subscribers != 4 || got.Pings != 7250+7251+7251+7276+5026+5025+5025+5006+7002+7008+7013+7012 || got.Timeouts != 0 {
		t.Errorf("%+v", got)
	}
	if got.MinNs != 15536 || math.Abs(got.MaxNs-14623601) > 1 {
		t.Errorf("from %v to %v", got.MinNs, got.MaxNs)
	}
	// By number of answers: the least and the most of a second's means bound it.
	if got.MeanNs < 39987 || got.MeanNs > 75378 || math.Abs(got.MeanNs-55700) > 1500 {
		t.Errorf("mean %v", got.MeanNs)
	}
	if got.P90Ns < 49260 || got.P90Ns > 82947 || got.P50Ns >= got.P90Ns || got.P90Ns >= got.P99Ns {
		t.Errorf("p50 %v, p90 %v, p99 %v", got.P50Ns, got.P90Ns, got.P99Ns)
	}
}

func TestPercentilesAreWeightedByAnswers(t *testing.T) {
	line := func(name, p90, count string) string {
		return "[7] 2.000  " + name + ":1 size 64 mean 10.000us min 1.000us 50% 5.000us 90% " + p90 + "us 99% 30.000us max 40.000us cnt " + count + "\n"
	}
	got, err := ParsePublisher(strings.NewReader(line("a", "10.000", "300") + line("b", "20.000", "100") +
		"[7] ping timed out (total 3 times) ... sending new ping\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got.P90Ns != 12500 || got.Subscribers != 2 || got.Timeouts != 1 {
		t.Errorf("%+v", got)
	}
}

func TestParseFailures(t *testing.T) {
	for name, want := range map[string]string{
		"nobody.txt":       "ddsperf: too few matching participants (0)",
		"no-config.txt":    "ddsperf: can't open configuration file file:///nope.xml",
		"no-interface.txt": "ddsperf: 1.2.3.4: does not match an available interface",
		"option.txt":       "ddsperf: invalid option -- 'W'",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParsePublisher(recorded(t, name)); err == nil || err.Error() != want {
				t.Errorf("%v; want %s", err, want)
			}
			if err := Check(recorded(t, name)); err == nil || err.Error() != want {
				t.Errorf("checked: %v; want %s", err, want)
			}
		})
	}
	if err := Check(recorded(t, "pub.txt")); err != nil {
		t.Errorf("a publisher that published: %v", err)
	}
}

func TestParseIncompleteOutput(t *testing.T) {
	second := func(at, total, delta string) string {
		return "[9] " + at + "  size 64 total " + total + " lost 0 delta " + delta + " lost 0 rate 0.00 kS/s 0.00 Mb/s (0.00 kS/s 0.00 Mb/s)\n"
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing":      {"[9] participant node:9: new (self)\n", "printed no count"},
		"no sample":    {second("1.000", "0", "0") + second("2.000", "0", "0"), "no sample arrived"},
		"too short":    {second("1.000", "5", "5") + second("2.000", "9", "4"), "during 2 seconds"},
		"just enough":  {second("1.000", "5", "5") + second("2.000", "9", "4") + second("3.000", "10", "1"), ""},
		"a gap inside": {second("1.0", "5", "5") + second("2.0", "5", "0") + second("3.0", "9", "4") + second("4.0", "10", "1"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSubscriber(strings.NewReader(test.text))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
	if _, err := ParsePublisher(strings.NewReader("")); err == nil || err.Error() != "no ping of the publisher was answered" {
		t.Error(err)
	}
}

func TestParseCores(t *testing.T) {
	got, ok := ParseCores(recorded(t, "pub.txt"))
	want := (0.06 + 0.25 + 0.01 + 0.05 + 0.19 + 0.01 + 0.03 + 0.14 + 0.01 + 0.01 + 0.03 + 0.12) / 4
	if !ok || math.Abs(got-want) > 1e-9 {
		t.Errorf("%v, want %v cores", got, want)
	}
	if _, ok := ParseCores(strings.NewReader("[1] participant node:1: new (self)\n")); ok {
		t.Error("who said nothing used something")
	}
}
