// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// A contract for tests: answers with every kind of value and fails in every way a contract can.
contract Probe {
    enum Mood {
        Calm,
        Cross
    }

    struct Point {
        int32 x;
        int32 y;
    }

    struct Order {
        address maker;
        uint256 amount;
        bool open;
        string note;
        Point[] path;
        bytes32[2] marks;
    }

    error Plain();
    error TooMuch(address who, uint256 asked, uint256 held);
    error Refused(Order order, bytes[] extras);

    event Counted(address indexed by, uint256 count);
    event Paid(address indexed from, uint256 value);

    uint256 public count;
    uint256 public paid;
    address public lastCaller;
    mapping(address => uint256) public countOf;

    // Writes

    function increment() external returns (uint256) {
        return add(1);
    }

    function add(uint256 amount) public returns (uint256) {
        count += amount;
        countOf[msg.sender] += amount;
        lastCaller = msg.sender;
        emit Counted(msg.sender, count);
        return count;
    }

    /// Works once per count: of two that were simulated at the same state the second reverts when it is mined.
    function incrementFrom(uint256 expected) external {
        if (count != expected) revert TooMuch(msg.sender, expected, count);
        add(1);
    }

    function pay() external payable returns (uint256) {
        paid += msg.value;
        emit Paid(msg.sender, msg.value);
        return msg.value;
    }

    function setNothing() external {}

    function burnGas(uint256 rounds) external returns (bytes32 hash) {
        for (uint256 i = 0; i < rounds; i++) hash = keccak256(abi.encode(hash, i));
        lastCaller = msg.sender;
    }

    // Who and where

    function whoami() external view returns (address) {
        return msg.sender;
    }

    function whoStarted() external view returns (address) {
        return tx.origin;
    }

    function blockNumber() external view returns (uint256) {
        return block.number;
    }

    function blockTime() external view returns (uint256) {
        return block.timestamp;
    }

    // Answers

    function nothing() external pure {}

    function oneInt() external pure returns (int256) {
        return -5;
    }

    function integers()
        external
        pure
        returns (uint8 small, uint64 middle, uint256 large, int8 negative, int24 odd, int256 lowest, uint256 zero)
    {
        return (type(uint8).max, type(uint64).max, type(uint256).max, type(int8).min, -1, type(int256).min, 0);
    }

    function several() external view returns (address who, bool yes, string memory words, bytes memory raw, bytes4 four) {
        return (address(this), true, unicode"Zoë, 日本, 🔑", hex"00ff10", 0xdeadbeef);
    }

    function unnamed() external pure returns (uint256, string memory, bool) {
        return (1, "two", false);
    }

    function emptyValues() external pure returns (string memory, bytes memory, uint256[] memory) {
        return ("", "", new uint256[](0));
    }

    function list() external pure returns (uint256[] memory numbers) {
        numbers = new uint256[](3);
        (numbers[0], numbers[1], numbers[2]) = (1, 2, type(uint256).max);
    }

    function matrix() external pure returns (uint16[2][] memory rows) {
        rows = new uint16[2][](2);
        rows[0] = [uint16(1), 2];
        rows[1] = [uint16(3), 65535];
    }

    function order() external view returns (Order memory) {
        return sample();
    }

    function orders() external view returns (uint256 total, Order[] memory all) {
        all = new Order[](2);
        (all[0], all[1]) = (sample(), sample());
        return (all.length, all);
    }

    function text(uint256 length) external pure returns (string memory) {
        bytes memory letters = new bytes(length);
        for (uint256 i = 0; i < length; i++) letters[i] = "a";
        return string(letters);
    }

    // The argument back

    function echoUint8(uint8 value) external pure returns (uint8) {
        return value;
    }

    function echoUint256(uint256 value) external pure returns (uint256) {
        return value;
    }

    function echoInt24(int24 value) external pure returns (int24) {
        return value;
    }

    function echoInt256(int256 value) external pure returns (int256) {
        return value;
    }

    function echoBool(bool value) external pure returns (bool) {
        return value;
    }

    function echoAddress(address value) external pure returns (address) {
        return value;
    }

    function echoString(string calldata value) external pure returns (string memory) {
        return value;
    }

    function echoBytes(bytes calldata value) external pure returns (bytes memory) {
        return value;
    }

    function echoBytes4(bytes4 value) external pure returns (bytes4) {
        return value;
    }

    function echoBytes32(bytes32 value) external pure returns (bytes32) {
        return value;
    }

    function echoMood(Mood value) external pure returns (Mood) {
        return value;
    }

    function echoList(uint256[] calldata value) external pure returns (uint256[] memory) {
        return value;
    }

    function echoThree(int64[3] calldata value) external pure returns (int64[3] memory) {
        return value;
    }

    function echoNested(uint16[2][] calldata value) external pure returns (uint16[2][] memory) {
        return value;
    }

    function echoStrings(string[] calldata value) external pure returns (string[] memory) {
        return value;
    }

    function echoPoint(Point calldata value) external pure returns (Point memory) {
        return value;
    }

    function echoOrder(Order calldata value) external pure returns (Order memory) {
        return value;
    }

    function echoOrders(Order[] calldata value, bool flag) external pure returns (Order[] memory, bool) {
        return (value, flag);
    }

    // Failures. As reads they revert the read; with `view` left out of the ABI they revert a write.

    function failError(string calldata reason) external pure {
        revert(reason);
    }

    function failRequire() external pure {
        require(false);
    }

    function failPlain() external pure {
        revert Plain();
    }

    function failTooMuch(uint256 asked, uint256 held) external view {
        revert TooMuch(msg.sender, asked, held);
    }

    function failRefused() external view {
        bytes[] memory extras = new bytes[](2);
        (extras[0], extras[1]) = (bytes(hex"01"), bytes(""));
        revert Refused(sample(), extras);
    }

    function failRaw(bytes calldata data) external pure {
        bytes memory raw = data;
        assembly ("memory-safe") {
            revert(add(raw, 32), mload(raw))
        }
    }

    function failAssert() external pure {
        assert(false);
    }

    function failOverflow(uint256 amount) external pure returns (uint256) {
        return type(uint256).max + amount;
    }

    function failDivision(uint256 by) external pure returns (uint256) {
        return 1 / by;
    }

    function failIndex(uint256 index) external pure returns (uint256) {
        return new uint256[](1)[index];
    }

    function failEnum(uint256 value) external pure returns (Mood) {
        return Mood(value);
    }

    function failInvalid() external pure {
        assembly ("memory-safe") {
            invalid()
        }
    }

    function failHuge() external pure {
        assembly ("memory-safe") {
            revert(0x80, 1048576)
        }
    }

    function failEndless() external pure {
        for (;;) {}
    }

    /// A failure that passes through a second contract.
    function failDeep(string calldata reason) external view {
        this.failError(reason);
    }

    function sample() private view returns (Order memory made) {
        made.maker = address(this);
        made.amount = 10 ** 30;
        made.open = true;
        made.note = "a, b) \"c\"";
        made.path = new Point[](2);
        made.path[0] = Point(-1, 2);
        made.path[1] = Point(type(int32).min, type(int32).max);
        made.marks = [bytes32(uint256(1)), bytes32(0)];
    }
}
