// The TCP sockets of one group, held beside Gloo's own handles of them. Closing a connection from this side wakes every
// waiter at both ends, which Gloo itself offers no call for; and a peer's hang-up is seen without waiting for it to
// take part in a collective.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace lf {

// Descriptors of this process that are connected TCP sockets.
std::set<int> connected_tcp_sockets();

class PeerSockets {
 public:
  PeerSockets() = default;
  // Duplicates of these descriptors: valid whatever Gloo does with the originals. Ranks are unknown (-1) at first.
  explicit PeerSockets(const std::set<int>& descriptors);
  ~PeerSockets();
  PeerSockets(PeerSockets&& other) noexcept : sockets_(std::move(other.sockets_)) { other.sockets_.clear(); }
  PeerSockets& operator=(PeerSockets&& other) noexcept;

  // "address:port" of this end of each socket, one a line: what other ranks label their ends with.
  std::string own_ends() const;
  // ends[rank]: own_ends() of that rank. Sockets that lead to nobody of the group are let go.
  void label(const std::vector<std::string>& ends);

  // Ranks whose end is closed, or -1 among them where labels are missing.
  std::set<int> hung_up() const;
  void shut_down() noexcept;  // from any thread

 private:
  struct Socket {
    int descriptor, rank;
  };
  std::vector<Socket> sockets_;
};

}  // namespace lf
