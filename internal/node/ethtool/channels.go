// SPDX-License-Identifier: Apache-2.0

package ethtool

// getChannels is ETHTOOL_GCHANNELS of linux/ethtool.h, and the places of its numbers behind the command.
const (
	getChannels      = 0x3c
	channelsTx       = 6
	channelsCombined = 8
	channelsNumbers  = 9
)

// TransmitQueues is how many queues an interface sends by at present. Drivers without channels, whose queues cannot be set, give
// unix.EOPNOTSUPP.
func TransmitQueues(name string) (int, error) {
	channels := make([]uint32, channelsNumbers)
	channels[0] = getChannels
	if err := Do(name, channels); err != nil {
		return 0, err
	}
	return int(channels[channelsTx] + channels[channelsCombined]), nil
}
