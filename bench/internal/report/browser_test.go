// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// browser returns Chromium's path. A missing one is a failure where everything must be tested.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testlab.Missing(t, "chromium is missing; install Debian's package chromium")
	return ""
}

// open loads a page in a browser of its own that finds no host, and returns what it printed.
func open(t *testing.T, browser, page string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	arguments = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--disable-default-apps", "--disable-features=OptimizationHints,MediaRouter,Translate",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir=" + t.TempDir(), "--virtual-time-budget=2000",
		"--window-size=1100,5200", "--hide-scrollbars", "--force-device-scale-factor=1",
	}, arguments...)
	command := exec.CommandContext(ctx, browser, append(arguments, (&url.URL{Scheme: "file", Path: page}).String())...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	command.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("chromium: %v\n%s", err, stderr.String())
	}
	return stdout.String()
}

func TestBrowserNeedsNoNetwork(t *testing.T) {
	browser := browser(t)
	measurement := generated(2000, threePaths, []int{64, 256, 1024}, true)
	dir := t.TempDir()
	page := filepath.Join(dir, "report.html")
	if err := os.WriteFile(page, []byte(rendered(t, measurement)), 0o600); err != nil {
		t.Fatal(err)
	}
	netLog, screenshot := filepath.Join(dir, "net.json"), filepath.Join(dir, "shot.png")
	dom := open(t, browser, page, "--dump-dom", "--log-net-log="+netLog, "--net-log-capture-mode=Everything")
	open(t, browser, page, "--screenshot="+screenshot)

	t.Run("every figure is in the document", func(t *testing.T) {
		for _, id := range []string{"latency-figure", "jitter-figure", "cdf-figure", "keep-awake-figure", "causes", "targets"} {
			if strings.Count(dom, fmt.Sprintf(`id=%q`, id)) != 1 {
				t.Errorf("no element %s", id)
			}
		}
		if drawings := strings.Count(dom, `role="img"`); drawings != 14 {
			t.Errorf("%d drawings, want 14", drawings)
		}
	})
	t.Run("its numbers are those of the data", func(t *testing.T) { compareNumbers(t, dom, measurement) })
	t.Run("nothing is asked of the network", func(t *testing.T) {
		if requests := requestsOf(t, netLog); len(requests) > 0 {
			t.Errorf("the page requested %q", requests)
		}
	})
	t.Run("the drawings have the colours of the paths", func(t *testing.T) { compareColours(t, screenshot) })
}

// compareNumbers looks for percentiles of the summary, which come another way than those of the page.
func compareNumbers(t *testing.T, dom string, measurement *Measurement) {
	exact := regexp.MustCompile(`data-exact="([^"]*)"`)
	for _, run := range measurement.Summary.Runs {
		prefix := ""
		if run.Workload != "plain" {
			prefix = run.Workload + "-"
		}
		check := func(tableID string, wants map[int]int64) {
			row := rowOf(dom, tableID, run.Path, run.PayloadBytes)
			cells := exact.FindAllStringSubmatch(row, -1)
			for column, want := range wants {
				if column >= len(cells) || cells[column][1] != strconv.FormatInt(want, 10) {
					t.Errorf("%s, %s, %d B, column %d: want %d in %s", tableID, run.Path, run.PayloadBytes, column, want, row)
				}
			}
		}
		latency, jitter := run.Latency, run.Jitter
		check(prefix+"latency", map[int]int64{0: 2000, 1: latency.Min, 4: latency.P50, 6: latency.P90, 7: latency.P99,
			8: latency.P99_9, 9: latency.Max})
		check(prefix+"jitter", map[int]int64{0: 1999, 1: jitter.Min, 4: jitter.P50, 9: jitter.Max, 10: jitter.AbsP50,
			11: jitter.AbsP99})
		if prefix == "" && run.PayloadBytes == cdfPayload {
			check("cdf", map[int]int64{1: latency.P50, 2: latency.P90, 3: latency.P99, 4: latency.P99_9, 5: latency.Max})
		}
	}
}

// rowOf is the text of one row of a table.
func rowOf(dom, tableID, path string, payloadBytes int) string {
	_, table, _ := strings.Cut(dom, fmt.Sprintf(`<table id=%q`, tableID))
	table, _, _ = strings.Cut(table, "</table>")
	_, row, _ := strings.Cut(table, fmt.Sprintf(`data-path="%s" data-payload="%d"`, path, payloadBytes))
	row, _, _ = strings.Cut(row, "</tr>")
	return row
}

// requestsOf lists the requests to a network that pages made, from the browser's log of its network stack.
// Chromium asks its maker's services on its own account ("not an origin"), which no page is to blame for.
func requestsOf(t *testing.T, netLog string) []string {
	t.Helper()
	text, err := os.ReadFile(netLog)
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Constants struct {
			LogEventTypes map[string]int `json:"logEventTypes"`
		} `json:"constants"`
		Events []struct {
			Type   int `json:"type"`
			Params struct {
				URL       string `json:"url"`
				Initiator string `json:"initiator"`
			} `json:"params"`
		} `json:"events"`
	}
	if err := json.Unmarshal(text, &log); err != nil {
		t.Fatalf("read the browser's log: %v", err)
	}
	start, known := log.Constants.LogEventTypes["URL_REQUEST_START_JOB"]
	if !known || len(log.Events) == 0 {
		t.Fatal("the browser's log has no requests; its format has changed")
	}
	var requests []string
	for _, event := range log.Events {
		from := event.Params.Initiator
		if event.Type == start && from != "" && from != "not an origin" && !strings.HasPrefix(event.Params.URL, "file:") {
			requests = append(requests, event.Params.URL)
		}
	}
	return requests
}

// TestBrowserReportsRequests makes sure that the test above would see a request if there were one.
func TestBrowserReportsRequests(t *testing.T) {
	browser := browser(t)
	dir := t.TempDir()
	page, netLog := filepath.Join(dir, "page.html"), filepath.Join(dir, "net.json")
	const text = `<!DOCTYPE html><link rel="stylesheet" href="http://nowhere.invalid/a.css"><img src="https://nowhere.invalid/b.png">`
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, browser, page, "--dump-dom", "--log-net-log="+netLog, "--net-log-capture-mode=Everything")
	requests := strings.Join(requestsOf(t, netLog), " ")
	for _, want := range []string{"a.css", "b.png"} {
		if !strings.Contains(requests, want) {
			t.Errorf("the request of %s was not seen among %q", want, requests)
		}
	}
}

// compareColours counts pixels: a drawing that is there but not visible has none.
func compareColours(t *testing.T, screenshot string) {
	file, err := os.Open(screenshot)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	picture, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threePaths {
		if count := pixels(picture, lookOf(path).color); count < 2000 {
			t.Errorf("%d pixels have the colour of %s", count, path)
		}
	}
}

func pixels(picture image.Image, wanted color.NRGBA) int {
	count := 0
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			if color.NRGBAModel.Convert(picture.At(x, y)) == wanted {
				count++
			}
		}
	}
	return count
}
