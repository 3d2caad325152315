// A training program as Pawl meets them: it knows RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
// and nothing else. Every rank connects to rank 0, which tells everyone everyone's address; then
// each pair holds one connection, the ranks exchange rank + 1 over all of them, and each prints
// the sum. Exits 0 if the sum is right, within 60 seconds of its start or not at all.
//
// Linked statically it is the only file of its image; linked with musl it runs where our C
// library is absent.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 256, DEADLINE_S = 60 };

struct peer {
  uint32_t address;  // network order
  uint16_t port;     // network order
  uint16_t rank;
};

static int rank, world_size;
static int sockets[MAX_RANKS];
static struct peer peers[MAX_RANKS];

static void fail(const char *what) {
  fprintf(stderr, "rank %d: %s: %s\n", rank, what, errno ? strerror(errno) : "failed");
  exit(1);
}

static int number_from_environment(const char *name, int fallback) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : fallback;
}

static void send_all(int fd, const void *data, size_t size) {
  for (const char *at = data; size > 0;) {
    ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent <= 0) fail("send");
    at += sent;
    size -= (size_t)sent;
  }
}

static void receive_all(int fd, void *data, size_t size) {
  for (char *at = data; size > 0;) {
    ssize_t received = recv(fd, at, size, 0);
    if (received <= 0) fail("receive");
    at += received;
    size -= (size_t)received;
  }
}

static int listen_on(uint16_t port, uint16_t *bound_port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (fd < 0) fail("socket");
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&address, sizeof address)) fail("bind");
  if (listen(fd, MAX_RANKS)) fail("listen");
  if (getsockname(fd, (struct sockaddr *)&address, &size)) fail("getsockname");
  *bound_port = address.sin_port;
  return fd;
}

// The others may not have started, nor their names be known to the DNS: try until alarm() ends us.
static int connect_to(const char *host, const char *port) {
  for (;;) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1;
    if (getaddrinfo(host, port, &hints, &found) == 0 && found) {
      fd = socket(AF_INET, SOCK_STREAM, 0);
      if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0) {
        freeaddrinfo(found);
        return fd;
      }
      if (fd >= 0) close(fd);
    }
    if (found) freeaddrinfo(found);
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
  }
}

static int connect_to_peer(const struct peer *peer) {
  char host[INET_ADDRSTRLEN], port[8];
  inet_ntop(AF_INET, &peer->address, host, sizeof host);
  snprintf(port, sizeof port, "%u", ntohs(peer->port));
  return connect_to(host, port);
}

// Rank 0: takes everyone's hello, then sends everyone the table.
static void serve(int listener) {
  for (int i = 1; i < world_size; i++) {
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    struct peer hello;
    int fd = accept(listener, (struct sockaddr *)&from, &size);
    if (fd < 0) fail("accept");
    receive_all(fd, &hello, sizeof hello);
    if (hello.rank == 0 || hello.rank >= world_size || sockets[hello.rank] >= 0) fail("hello");
    hello.address = from.sin_addr.s_addr;
    peers[hello.rank] = hello;
    sockets[hello.rank] = fd;
  }
  for (int i = 1; i < world_size; i++) send_all(sockets[i], peers, sizeof peers[0] * (size_t)world_size);
}

// Another rank: connects to the lower ones, accepts from the higher ones.
static void join(int listener, uint16_t port, const char *master, const char *master_port) {
  struct peer hello = {.port = port, .rank = (uint16_t)rank};
  sockets[0] = connect_to(master, master_port);
  send_all(sockets[0], &hello, sizeof hello);
  receive_all(sockets[0], peers, sizeof peers[0] * (size_t)world_size);
  for (int i = 1; i < rank; i++) {
    sockets[i] = connect_to_peer(&peers[i]);
    send_all(sockets[i], &hello, sizeof hello);
  }
  for (int i = rank + 1; i < world_size; i++) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) fail("accept");
    receive_all(fd, &hello, sizeof hello);
    if (hello.rank <= rank || hello.rank >= world_size || sockets[hello.rank] >= 0) fail("hello");
    sockets[hello.rank] = fd;
  }
}

static uint32_t sum_over_ranks(void) {
  uint32_t sum = (uint32_t)rank + 1;
  for (int i = 0; i < world_size; i++) {
    uint32_t mine = htonl((uint32_t)rank + 1);
    if (i != rank) send_all(sockets[i], &mine, sizeof mine);
  }
  for (int i = 0; i < world_size; i++) {
    uint32_t other;
    if (i == rank) continue;
    receive_all(sockets[i], &other, sizeof other);
    sum += ntohl(other);
  }
  return sum;
}

int main(void) {
  const char *master = getenv("MASTER_ADDR"), *master_port = getenv("MASTER_PORT");
  uint16_t port = 0;
  rank = number_from_environment("RANK", 0);
  world_size = number_from_environment("WORLD_SIZE", 1);
  if (rank < 0 || world_size < 1 || world_size > MAX_RANKS || rank >= world_size || !master_port) {
    fprintf(stderr, "need RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT\n");
    return 2;
  }
  alarm(DEADLINE_S);
  for (int i = 0; i < MAX_RANKS; i++) sockets[i] = -1;
  int listener = listen_on(rank == 0 ? (uint16_t)atoi(master_port) : 0, &port);
  if (rank == 0) {
    serve(listener);
  } else {
    join(listener, port, master ? master : "127.0.0.1", master_port);
  }
  uint32_t sum = sum_over_ranks(), expected = (uint32_t)world_size * ((uint32_t)world_size + 1) / 2;
  printf("rank %d of %d: sum %u\n", rank, world_size, sum);
  return sum == expected ? 0 : 1;
}
