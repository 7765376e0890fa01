enum state { IDLE, RUNNING = 4, STOPPED, FAILED = 0x10 };

const char *name_of(enum state s) {
    switch (s) {
    case IDLE:
        return "idle";
    case RUNNING:
        return "running";
    case STOPPED:
    case FAILED:
        return "over";
    default:
        break;
    }
    return "?";
}
