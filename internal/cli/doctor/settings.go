// SPDX-License-Identifier: Apache-2.0

package doctor

import "context"

// settings reports the settings of the node's machine. Possible improvements are notes: an untuned machine is not a fault.
func (d *Doctor) settings(ctx context.Context, node string) {
	all, err := d.AskSettings(ctx, node)
	if err != nil {
		d.unreadable("settings of the machine", err)
		return
	}
	for _, setting := range all {
		if setting.Cost == "" {
			d.ok(setting.Name, "%s", setting.Found)
			continue
		}
		d.report(Note, setting.Name, setting.Mend, "%s: %s", setting.Found, setting.Cost)
	}
}
